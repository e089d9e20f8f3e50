"""The golden record: what every public estimator predicts and publishes, on small fixed data.

    python tests/golden/record.py write FILE          # every case, with hashes of all bytes
    python tests/golden/record.py compare FILE FILE   # two commits in one environment: bit for bit
    python tests/golden/record.py store [ONLY]        # renew the copy that the tests compare with

A change of structure must leave the record alone: write it before and after, in one environment,
and compare. A change of results on purpose renews the stored copy; its difference in the commit
shows which results changed. Each case is an estimator with one of three settings in one form of
use: dense, CSR, float32, weighted, `partial_fit` in two chunkings, a source, a model file, a Dask
cluster with two partitions.
"""

import hashlib
import inspect
import json
import platform
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

import tunefree
from tunefree import links, potentials
from tunefree._registry import estimator_class

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from papers import baselines  # noqa: E402

STORED = Path(__file__).with_name("record.json")
ROWS, COLUMNS = 160, 6

# Estimator: its task and two settings beside the defaults.
SETTINGS = {
    "AveragedSGDRegressor": (
        "numbers",
        {"solver": "sgd", "average": "tail", "alphas": [10.0, 0.1]},
        {"solver": "exact", "fit_intercept": False},
    ),
    "ClassicalPerceptron": ("classes", {"max_iter": 20}, {"fit_intercept": False}),
    "DynamicsReflectron": ("motion", {"link": "identity"}, {"step": 0.1, "max_iter": 40}),
    "KernelOptimisticPerceptron": ("classes", {"method": "auto"}, {"kernel": "poly"}),
    "KernelPiSTOLClassifier": ("classes", {"setting": "paper", "gamma": 0.1}, {"max_support": 50}),
    "KernelPiSTOLRegressor": ("numbers", {"kernel": "laplacian"}, {"gamma": 0.1, "max_iter": 2}),
    "LandmarkClassifier": (
        "classes",
        {"n_landmarks": 20},
        {"n_landmarks": 60},
        {"loss": "log_loss"},
        {"loss": "log_loss", "n_landmarks": 20},
    ),  # fmt: skip
    "LandmarkRegressor": ("numbers", {"n_landmarks": 20}, {"n_landmarks": 60}),
    "OptimisticPerceptron": ("classes", {"method": "auto", "stop": "margin"}, {"step": "paper"}),
    "PiSTOLClassifier": ("classes", {"setting": "theorem-1"}, {"loss": "logistic", "max_iter": 2}),
    "PiSTOLRegressor": ("numbers", {"loss": "huber", "average": "last"}, {"cap": None}),
    "ReflectronClassifier": ("classes", {"potential": "p_norm"}, {"solver": "stochastic"}),
    "ReflectronRegressor": (
        "shares",
        {"link": "logistic", "potential": "hypentropy", "constraint": "l1", "max_iter": 50},
        {"link": "identity", "solver": "stochastic"},
        {"link": "logistic"},
        {"family": "binomial", "link": "learned", "max_iter": 60},
    ),
    "SharedReflectron": ("shared", {"link": "identity"}, {"potential": "euclidean"}),
    "StreamClassifier": ("classes", {"delay": 3}, {"delay": 40}),
    "StreamRegressor": ("numbers", {"delay": 3}, {"delay": 40}),
    "TablePreprocessor": ("table", {"max_levels": 2}, {"sparse_output": True}),
    "TuneFreeClassifier": ("classes", {"family": "linear"}, {"family": "kernel"}),
    "TuneFreeRegressor": ("numbers", {"family": "linear"}, {"family": "kernel"}),
}
# Those that papers compare with, in `papers.baselines`.
BASELINES = {
    "KernelAveragedSGDClassifier": ("classes", {"max_iter": 3}, {"kernel": "linear", "step": 0.1}),
    "KernelAveragedSGDRegressor": ("numbers", {"max_iter": 3}, {"kernel": "laplacian"}),
    "KernelPerceptron": ("classes", {"average": "voted"}, {"kernel": "laplacian", "max_iter": 2}),
}
SEVERAL = ("KernelPiSTOLClassifier", "PiSTOLClassifier", "ReflectronClassifier",
          "StreamClassifier")  # fmt: skip
UNSTABLE = ("seconds", "time", "versions", "budget_left")  # clocks, and names of versions


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


class Leaves(dict):
    """Numbers and texts of a nested value, by their path; objects of other kinds are left out."""

    def add(self, path, value):
        """Take what is below `value`."""
        if any(word in path for word in UNSTABLE):
            return
        if sparse.issparse(value):
            self.add(path, value.toarray())
        elif hasattr(value, "_asdict"):
            self.add(path, value._asdict())
        elif isinstance(value, Mapping):
            for key in value:
                self.add(f"{path}.{key}", value[key])
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            self[path] = value
        elif isinstance(value, (bool, int, float, np.number, np.bool_)):
            self[path] = np.asarray(value)
        elif isinstance(value, (str, np.str_)):
            self[path] = str(value)
        elif isinstance(value, (list, tuple, np.ndarray)) and len(value):
            if all(isinstance(v, (bool, int, float, np.number)) for v in value):
                self[path] = np.asarray(value)
            elif all(isinstance(v, str) for v in value):
                self[path] = "|".join(value)
            elif all(isinstance(v, Mapping) for v in value):  # a table, column by column
                for key in dict.fromkeys(key for row in value for key in row):
                    self.add(f"{path}.{key}", [row[key] for row in value if key in row])
            else:
                for i, item in enumerate(value):
                    self.add(f"{path}.{i}", item)


def published(model, X):
    """Predictions and fitted attributes."""
    leaves = Leaves()
    for verb in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, verb):
            leaves.add(verb, getattr(model, verb)(X))
    for name in getattr(model, "_ON_DEMAND", ()):
        hasattr(model, name)  # a stream's read-out is made when it is asked for
    for name in sorted(vars(model)):
        if name.endswith("_") and not name.startswith("_"):
            leaves.add(name, vars(model)[name])
    return leaves


def named(name):
    """An estimator's class, of those that papers compare with, too."""
    return getattr(baselines, name) if name in BASELINES else estimator_class(name)


def make(name, setting):
    """A fresh estimator, its random state fixed where it has one."""
    model = named(name)(**setting)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model


def streamed(model, X, y, size, classes):
    """Learn in chunks."""
    known = {} if classes is None else {"classes": classes}
    for i in range(0, len(y), size):
        model.partial_fit(X[i : i + size], y[i : i + size], **known)
    return model


def tabular(name, setting, task):
    """Forms of use of an estimator of rows and targets: (form, function that fits)."""
    X, y = data(task)
    weights = 1.0 + np.arange(ROWS) % 3
    classes = np.unique(y) if task in ("classes", "several") else None
    known = {} if classes is None else {"classes": classes}

    def loaded():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            tunefree.save_model(make(name, setting).fit(X, y), path)
            return tunefree.load_model(path)

    def from_file():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            lines = (",".join([*map(repr, r), str(t)]) for r, t in zip(X.tolist(), y, strict=True))
            path.write_text("\n".join(lines) + "\n")
            source = tunefree.open_source(str(path), header=False)
            return make(name, setting).fit_source(source, **known)

    yield "dense", lambda: make(name, setting).fit(X, y), X
    yield "csr", lambda: make(name, setting).fit(sparse.csr_array(X), y), sparse.csr_array(X)
    yield "float32", lambda: make(name, setting).fit(X.astype(np.float32), y), X.astype(np.float32)
    if name != "ClassicalPerceptron" and "sample_weight" in fit_parameters(name):
        yield "weights", lambda: make(name, setting).fit(X, y, sample_weight=weights), X
    if name not in BASELINES:
        yield "model file", loaded, X
    if hasattr(named(name), "partial_fit"):
        for size in (7, 64):
            yield (
                f"partial_fit {size}",
                lambda size=size: streamed(make(name, setting), X, y, size, classes),
                X,
            )
    if hasattr(named(name), "fit_source"):
        yield "source", from_file, X


def fit_parameters(name):
    """The names of what `fit` takes."""
    return inspect.signature(named(name).fit).parameters


def others(name, setting):
    """The estimators whose `fit` takes something else than rows and targets."""
    rng = np.random.default_rng(11)
    if name == "DynamicsReflectron":
        paths = np.cumsum(0.3 * rng.normal(size=(12, 6, 5)), axis=1)
        yield "paths", lambda: make(name, setting).fit(paths), paths[0]
    elif name == "SharedReflectron":
        X, y = data("shares")
        Y = np.c_[y, y**2, 1.0 - y]
        yield "dense", lambda: make(name, setting).fit(X, Y), X
        yield "weights", lambda: make(name, setting).fit(X, Y, 1.0 + np.arange(ROWS) % 3), X
    elif name == "TablePreprocessor":
        import pandas as pd

        X, _ = data("numbers")
        frame = pd.DataFrame(X, columns=list("abcdef"))
        frame["a"] = np.array(["red", "green", "blue"])[np.arange(ROWS) % 3]
        frame.loc[3, "b"] = np.nan
        frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(ROWS), unit="D")
        yield "frame", lambda: make(name, setting).fit(frame), frame


def distributed():
    """The estimators of `tunefree.dask`, on two partitions."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from tunefree import dask as there

    with (
        LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for name in there.__all__:
            task, *_ = SETTINGS[name]
            X, y = data(task)
            codes = (
                y if task not in ("classes", "several") else np.unique(y, return_inverse=True)[1]
            )
            # A cluster's rows are not all at hand: their link is named.
            named_link = {"link": "logistic"} if name == "ReflectronRegressor" else {}
            model = getattr(there, name)(**named_link)
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


def cases(only=""):
    """(Name, leaves) of every case whose name holds `only`."""
    for name, (task, *settings) in (SETTINGS | BASELINES).items():
        for i, setting in enumerate([{}, *settings]):
            tasks = [task, "several"] if name in SEVERAL and i == 0 else [task]
            for t in tasks:
                forms = others(name, setting) if t in ("motion", "shared", "table") else None
                for form, fit, X in forms or tabular(name, setting, t):
                    key = f"{name}/{i}/{t}/{form}"
                    if only not in key:
                        continue
                    try:
                        yield key, published(fit(), X)
                    except (ValueError, TypeError, AttributeError) as refusal:
                        leaves = Leaves()  # what is refused stays refused
                        leaves.add("refused", type(refusal).__name__)
                        yield key, leaves
    if only in ("", "dask"):
        yield from distributed()
    if only in ("", "parts"):
        yield from parts()


def digest(value):
    """A value in short: shape and type, [norm, projection on fixed random numbers], all bytes."""
    if isinstance(value, str):
        return [hashlib.sha256(value.encode()).hexdigest()[:16]]
    value = np.asarray(value)
    flat = np.nan_to_num(value.astype(float).ravel(), nan=0.5, posinf=1e9, neginf=-1e9)
    drawn = np.random.default_rng(flat.size).normal(size=flat.size)
    summary = [float(f"{x:.13g}") for x in (np.linalg.norm(flat), drawn @ flat)]
    raw = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    return [f"{value.dtype}{list(value.shape)}", *summary, raw]


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


def record(only=""):
    """The whole record: {case: {path: digest}}."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            key: {path: digest(value) for path, value in sorted(leaves.items())}
            for key, leaves in cases(only)
        }


def differences(old, new, tolerance=None):
    """Sentences on what differs: in any byte, or by more than `tolerance` relative to the norm."""
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key, {}), new.get(key, {})
        for path in sorted(a.keys() | b.keys()):
            x, y = a.get(path), b.get(path)
            if x is None or y is None:
                yield f"{key} {path}: only in the {'new' if x is None else 'old'} record"
            elif tolerance is None or len(x) == 1 or x[0] != y[0]:
                if x != y:
                    yield f"{key} {path}: {x} became {y}"
            elif max(abs(x[1] - y[1]), abs(x[2] - y[2])) > tolerance * max(x[1], y[1]):
                yield f"{key} {path}: {x[1:3]} became {y[1:3]}"


def text(found):
    """JSON with a case a line."""
    lines = (f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments):
    """Write, compare or store."""
    match arguments:
        case ["write", path, *only]:
            Path(path).write_text(text(record(*only)))
        case ["compare", one, other]:
            found = list(differences(*(json.loads(Path(p).read_text()) for p in (one, other))))
            print("\n".join(found) or "equal, bit for bit")
            return int(bool(found))
        case ["store", *only]:
            short = {k: {p: d[:3] for p, d in v.items()} for k, v in record(*only).items()}
            kept = json.loads(STORED.read_text()) if only else {}
            STORED.write_text(text({**kept, "environment": environment(), **short}))
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
