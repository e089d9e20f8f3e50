"""The benchmark's data sets: one loader each, raw units, the splits of the data directory's README.

``load(name, directory)`` returns a `Data`. Nothing is standardised or cached here:
methods get the contents of the files. The mapping `LOADERS` is the registry.
"""

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file


class Data(NamedTuple):
    """One data set, split; ``task`` is "binary", "multiclass", "stream" or "regression"."""

    name: str
    task: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    note: str = ""


def load(name, directory):
    """Read one data set of the registry from ``directory``."""
    task, read, note = LOADERS[name]
    return Data(name, task, *read(Path(directory)), note)


def names(*tasks):
    """Return the names of the data sets of these tasks, in the order of the registry."""
    return [name for name, (task, _, _) in LOADERS.items() if task in tasks]


def held_out(X, y, share=0.3):
    """Split by the seed-0 permutation whose first ``share`` is the test part."""
    order = np.random.default_rng(0).permutation(len(y))
    cut = int(share * len(y))
    train, test = order[cut:], order[:cut]
    return X[train], y[train], X[test], y[test]


def table(file, header=1, label=-1, first=0):
    """Read a numeric gzipped csv file whose column ``label`` holds the classes as text."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        cells = np.array([line.rstrip().split(",") for line in lines][header:])
    return np.delete(cells, label, 1)[:, first:].astype(float), cells[:, label]


def libsvm(file, n_features):
    # The reader returns 64-bit indices, which several peers do not accept.
    X, y = load_svmlight_file(str(file), n_features=n_features)
    X = sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
    return X, y.astype(int)


def a9a(d):
    return *libsvm(d / "a9a.gz", 123), *libsvm(d / "a9a.t.gz", 123)


def newsgroups(d):
    parts = np.load(d / "news20like_binary.npz")
    X = sp.csr_matrix(
        (parts["data"].astype(float), parts["indices"], parts["indptr"].astype(np.int32)),
        tuple(parts["shape"]),
    )
    y, train = parts["y"].astype(int), parts["is_train"]
    return X[train], y[train], X[~train], y[~train]


def mnist(d):
    def idx(name, offset):
        return np.frombuffer(gzip.decompress((d / f"mnist-{name}.gz").read_bytes()), np.uint8)[
            offset:
        ]

    return tuple(
        part
        for which in ("train", "t10k")
        for part in (
            idx(f"{which}-images-idx3-ubyte", 16).reshape(-1, 784),
            idx(f"{which}-labels-idx1-ubyte", 8).astype(int),
        )
    )


def usps(d):
    parts = np.load(d / "usps.npz")
    X_train, X_test = parts["X_train"].astype(float), parts["X_test"].astype(float)
    return X_train, parts["y_train"].astype(int), X_test, parts["y_test"].astype(int)


def elec2(d):
    X, y = table(d / "elec2.csv.gz", first=1)  # the first column numbers the rows
    return X, y, X[:0], y[:0]


def california(d):
    X, y = table(d / "california_housing.csv.gz")
    return held_out(X, y.astype(float))


def uci(name):
    def read(d):
        parts = np.load(d / f"uci_{name}.npz")
        X, y, test = parts["X"], parts["y"].ravel(), parts["test_mask"][:, 0]
        return X[~test], y[~test], X[test], y[test]

    return read


STAND_IN = "stand-in for news20.binary"
SEED = "seed-0 split"
# Cheap sets first, so that an interrupted run shows most of them.
LOADERS = {
    "a9a": ("binary", a9a, "given split"),
    "w8a": ("binary", lambda d: held_out(*libsvm(d / "w8a.gz", 300)), SEED),
    "mushrooms": (
        "binary",
        lambda d: held_out(*libsvm(d / "agaricus.txt.train.gz", 127)),
        SEED,
    ),
    "spam": ("binary", lambda d: held_out(*table(d / "spam.csv.gz")), SEED),
    "magic04": ("binary", lambda d: held_out(*table(d / "magic04.csv.gz", header=0)), SEED),
    "satellite": ("multiclass", lambda d: held_out(*table(d / "satellite.csv.gz")), SEED),
    "usps": ("multiclass", usps, "given split"),
    "letter": (
        "multiclass",
        lambda d: held_out(*table(d / "letterrecognition.csv.gz", label=0)),
        SEED,
    ),
    "newsgroups": ("binary", newsgroups, STAND_IN),
    "mnist": ("multiclass", mnist, "given split, 10 classes"),
    "elec2": ("stream", elec2, "prequential, time order"),
    "protein": ("regression", uci("protein"), ""),
    "bike": ("regression", uci("bike"), ""),
    "elevators": ("regression", uci("elevators"), ""),
    "pol": ("regression", uci("pol"), ""),
    "california": ("regression", california, SEED),
    "kin40k": ("regression", uci("kin40k"), "linear models find nothing"),
    "pumadyn32nm": ("regression", uci("pumadyn32nm"), "linear models find nothing"),
}
