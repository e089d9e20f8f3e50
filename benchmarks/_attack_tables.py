"""Hostile tables, and the loss of default fits on them relative to the best constant."""

import numpy as np
from scipy import sparse

import tunefree

LEARNED, TESTED, D = 300, 2000, 8
_SLACK = 1.05


def _rule(X):
    return X[:, 0] - 2.0 * X[:, 1] + np.sin(X[:, 2])


def _plain(rng, n, d=D):
    X = rng.normal(size=(n, d))
    return X, _rule(X) + rng.normal(size=n)


def _columns(make):
    """Targets depend on hidden columns; `make` gives a version of these."""

    def build(rng, n):
        X, y = _plain(rng, n)
        return make(rng, X), y

    return build


def _targets(make):
    def build(rng, n):
        X, y = _plain(rng, n)
        return X, make(rng, X, y)

    return build


def _spoilt(values, rng, share, by):
    bad = rng.random(values.shape) < share
    return np.where(bad, values * by, values)


def _collinear(rng, X):
    return np.hstack([X, X[:, :3] + 1e-12 * rng.normal(size=(len(X), 3))])


def _one_spike(rng, X):
    X = X.copy()
    X[rng.integers(len(X)), rng.integers(X.shape[1])] = 1e12
    return X


def _few_rows(n):
    def build(rng, m):
        # As many rows as test rows; only the first few are learned.
        return _plain(rng, m)

    build.learned = n
    return build


def _noise(d, k=None):
    def build(rng, n):
        X = rng.normal(size=(n, d))
        y = rng.normal(size=n) if k is None else rng.integers(0, k, n).astype(float)
        return X, y

    return build


def _needle(rng, n):
    X = rng.normal(size=(n, 500))
    return X, X[:, 7] + rng.normal(size=n)


def _empty(rng, n):
    X = rng.normal(size=(n, 100)) * (rng.random((n, 100)) < 0.005)
    return sparse.csr_array(X), X.sum(axis=1) + 0.1 * rng.normal(size=n)


def _rare(rng, n):
    X = rng.normal(size=(n, D))
    return X, 1.0 * (X[:, 0] + 0.5 * rng.normal(size=n) > 2.9)


def _jump(rng, n):
    X, y = _plain(rng, n)
    return X, np.where(rng.random(n) < 0.003, 1e6, 0.0) + y


TABLES = {
    "40 decades": _columns(lambda rng, X: X * 10.0 ** np.linspace(-20, 20, D)),
    "Cauchy columns": _columns(lambda rng, X: rng.standard_cauchy(X.shape) * X),
    "Cauchy": _columns(lambda rng, X: np.tan(np.pi * (0.999 * _ranks(X) - 0.4995))),
    "lognormal columns": _columns(lambda rng, X: np.exp(3 * X)),
    "exp(40 z)": _columns(lambda rng, X: np.exp(40 * X)),
    "Pareto columns": _columns(lambda rng, X: rng.pareto(0.7, X.shape) * np.sign(X)),
    "two rows": _few_rows(2),
    "three rows": _few_rows(3),
    "five rows": _few_rows(5),
    "twelve rows": _few_rows(12),
    "forty rows": _few_rows(40),
    "targets 1e6": _jump,
    "imbalance": _rare,
    "noise, 8 columns": _noise(8),
    "noise, 100 columns": _noise(100),
    "noise, 400 columns": _noise(400),
    "noise, 20 classes": _noise(20, 20),
    "needle": _needle,
    "constant columns": _columns(lambda rng, X: np.hstack([X, np.ones((len(X), 3)) * 1e9])),
    "copies of columns": _columns(lambda rng, X: np.hstack([X] * 10)),
    "collinear": _columns(_collinear),
    "columns 1e-30": _columns(lambda rng, X: X * 1e-30),
    "columns 1e30": _columns(lambda rng, X: X * 1e30),
    "columns 1e100": _columns(lambda rng, X: X * 1e100),
    "denormal columns": _columns(lambda rng, X: X * 1e-310),
    "columns far from 0": _columns(lambda rng, X: X + 1e9),
    "one spike": _columns(_one_spike),
    "spoilt entries": _columns(lambda rng, X: _spoilt(X, rng, 0.02, 1e5)),
    "rounded": _columns(lambda rng, X: np.round(X)),
    "signs": _columns(lambda rng, X: np.sign(X)),
    "shuffled codes": _columns(lambda rng, X: rng.permutation(50)[(20 * _ranks(X)).astype(int)]),
    "empty rows": _empty,
    "Cauchy targets": _targets(lambda rng, X, y: y + 10 * rng.standard_cauchy(len(y))),
    "lognormal targets": _targets(lambda rng, X, y: np.exp(2 * y)),
    "spoilt targets": _targets(lambda rng, X, y: _spoilt(y, rng, 0.05, 100.0)),
    "tiny targets": _targets(lambda rng, X, y: y * 1e-12),
    "huge targets": _targets(lambda rng, X, y: y * 1e12),
    "targets far from 0": _targets(lambda rng, X, y: y + 1e9),
    "nearly constant targets": _targets(lambda rng, X, y: 1.0 * (y > 4)),
    "labels at random": _targets(lambda rng, X, y: np.where(rng.random(len(y)) < 0.45, -y, y)),
}


def _ranks(X):
    return (np.argsort(np.argsort(X, axis=0), axis=0) + 0.5) / len(X)


def estimators():
    """Names of the public estimators with a default that predicts from rows."""
    for name in tunefree.__all__:
        made = getattr(tunefree, name)
        if name.endswith(("Classifier", "Regressor")) and hasattr(made, "predict"):
            yield name


def tables(rng, options):
    """Yield the input, and the problem or ''."""
    for title, build in TABLES.items():
        n = getattr(build, "learned", LEARNED)
        X, y = build(rng, n + TESTED)
        for name in estimators():
            classify = name.endswith("Classifier")
            t = _labels(y) if classify else y
            if classify and len(np.unique(t[:n])) < 2:
                continue
            yield f"{name}, {title}", _tried(name, X[:n], t[:n], X[n:], t[n:], classify)


def _labels(y):
    values = np.unique(y)
    return y.astype(int) if len(values) <= 20 else (y > np.median(y)).astype(int)


def _tried(name, X, y, Z, t, classify):
    try:
        model = getattr(tunefree, name)()
        if hasattr(model, "random_state"):
            model.set_params(random_state=0)
        predicted = model.fit(X, y).predict(Z)
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem)[:100]}"
    if classify:
        labels, counts = np.unique(y, return_counts=True)
        ours, constant = np.mean(predicted != t), np.mean(labels[counts.argmax()] != t)
        ours, constant = ours + 0.5 / len(t), constant + 0.5 / len(t)
    else:
        unit = np.abs(t).max()
        ours, constant = (np.mean(np.square((p - t) / unit)) for p in (predicted, y.mean()))
    ratio = ours / constant
    return "" if ratio <= _SLACK else f"{ratio:.3g} of the constant's loss"
