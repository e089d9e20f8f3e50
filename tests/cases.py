"""Data on which laws are tried: dense and sparse rows, classes and real targets."""

import numpy as np
from scipy import sparse

from tunefree import PiSTOLClassifier, PiSTOLRegressor


def rows(kind, n=240, seed=0):
    """Rows in rough units: dense and correlated, or mostly zero."""
    rng = np.random.default_rng(seed)
    if kind == "sparse":
        return rng.normal(size=(n, 12)) * (rng.random((n, 12)) < 0.15)
    return (rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5)) + 3.0) * np.logspace(-2, 2, 5)


def classes(X, k=2, seed=0):
    """Labels 0 .. k - 1, noisy."""
    rng = np.random.default_rng(seed + 1)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    return (z @ rng.normal(size=(X.shape[1], k)) + 0.5 * rng.normal(size=(len(X), k))).argmax(1)


def targets(X, k=1, seed=0):
    """Real targets in rough units."""
    rng = np.random.default_rng(seed + 1)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = 50.0 + 7.0 * (z @ rng.normal(size=(X.shape[1], k)) + 0.5 * rng.normal(size=(len(X), k)))
    return y[:, 0] if k == 1 else y


def case(name, n=240, seed=0):
    """A fresh estimator, rows and targets of one of `NAMES`."""
    task, kind = name.split()
    X = rows(kind, n, seed)
    if task == "regressor":
        return PiSTOLRegressor(random_state=seed), X, targets(X, seed=seed)
    k = 3 if task == "multiclass" else 2
    return PiSTOLClassifier(random_state=seed), X, classes(X, k, seed)


NAMES = [
    "classifier dense", "classifier sparse", "multiclass dense", "regressor dense",
    "regressor sparse",
]  # fmt: skip


def stored(X, kind):
    """The rows as an array or as CSR with a kind of index."""
    if kind == "dense":
        return X
    X = sparse.csr_array(X) if kind.endswith("array") else sparse.csr_matrix(X)
    index = np.int64 if "64" in kind else np.int32
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def decide(model, X):
    """The decision function of a classifier, the predictions of a regressor."""
    return getattr(model, "decision_function", model.predict)(X)


def predictor(model):
    """All that predictions are made of."""
    out = [model.coef_, model.intercept_]
    out += [getattr(model, name) for name in ("input_limits_", "prediction_limits_", "classes_")
            if getattr(model, name, None) is not None]  # fmt: skip
    return [np.array(a) for a in out]


def assert_same(one, other):
    """Equal to the last bit."""
    for a, b in zip(predictor(one), predictor(other), strict=True):
        np.testing.assert_array_equal(a, b)
