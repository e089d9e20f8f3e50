"""Checks of streams, and of outlier rows; each gives texts (ours, peers)."""

import pickle
import time

import numpy as np
from scipy import sparse

from _trust import PEERS, decide, listed, maker, ours, problem

# Learners of streams.
STREAMS = [name for name, make in ours().items() if hasattr(make(), "partial_fit")]


def stream_rows(seed, kind, task):
    """800 rows with an outlier after 600, and 600 clean test rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1400, 10)) + 2.0
    y = (X - 2.0) @ rng.normal(size=10) + 0.3 * rng.normal(size=1400)
    y = (y > 0).astype(int) if task == "class" else y
    rows, labels = X[:800], y[:800]
    if kind == "x":
        odd = rng.choice([-1, 1], 10) * 10.0 ** rng.uniform(-300, 149.9, 10)
        rows, labels = np.insert(rows, 600, odd, axis=0), np.insert(labels, 600, 1)
    elif kind == "huge":
        rows = np.insert(rows, 600, np.full(10, 1e149), axis=0)
        labels = np.insert(labels, 600, 1)
    elif kind == "y":
        rows, labels = np.insert(rows, 600, X[0], axis=0), np.insert(labels, 600, 1e30)
    return rows, labels, X[800:], y[800:]


def accuracy_kept(learn, task, kinds, seeds):
    """The smallest share of the clean accuracy that is kept, over kinds of outlier rows."""
    worst = np.inf
    for kind in kinds:
        clean = dirty = 0.0
        for seed in range(seeds):
            clean += learn(*stream_rows(seed, None, task))
            dirty += learn(*stream_rows(seed, kind, task))
        worst = min(worst, dirty / clean)
    return worst


def of(make, verb, as_sparse=False):
    """A function that learns and scores; 0 if the rows are refused."""

    def learn(X, y, X_test, y_test):
        X, model = sparse.csr_array(X) if as_sparse else X, make()
        streams = verb == "partial_fit" and "Classifier" in type(model).__name__
        try:
            fitted = getattr(model, verb)(X, y, **({"classes": [0, 1]} if streams else {}))
            return fitted.score(X_test, y_test)
        except (ValueError, FloatingPointError):
            return 0.0

    return learn


def outlier(seeds, names, verb):
    """The smallest share of the clean accuracy that is kept after an outlier row."""

    def kept(name, make, as_sparse=False):
        real = "Regressor" in name
        kinds = ("x", "huge", "y") if real else ("x", "huge")
        return accuracy_kept(of(make, verb, as_sparse), "real" if real else "class", kinds, seeds)

    shares = {
        f"{name}{' sparse' * as_sparse}": kept(name, make, as_sparse)
        for name, make in ours(names).items()
        for as_sparse in (False, True)
    }
    peers = {name: kept(name, PEERS[name]) for name in ("SGDClassifier", "SGDRegressor")}
    if verb == "partial_fit":
        for flags in ("", "--coin", "--pistol"):
            peers[f"vw {flags}".strip()] = accuracy_kept(_vw(flags), "class", ("x", "huge"), seeds)
    worst = min(shares, key=shares.get)
    low = [name for name, share in shares.items() if share < 0.95]
    return (f"{len(names)} estimators: {100 * shares[worst]:.1f} % kept at least ({worst})"
            + (f"; below 95 %: {', '.join(low)}" if low else ""),
            listed({k: f"{100 * max(v, 0.0):.0f} %" for k, v in peers.items()}))  # fmt: skip


def _vw(flags):
    """Vowpal Wabbit as a function that learns and scores."""

    def learn(X, y, X_test, y_test):
        try:
            import vowpalwabbit
        except ImportError:
            return np.nan
        workspace = vowpalwabbit.Workspace(f"--quiet --loss_function logistic {flags}")

        def line(row, label=None):
            cells = " ".join(f"f{j}:{v!r}" for j, v in enumerate(row.tolist()))
            return f"{'' if label is None else 2 * int(label) - 1} | {cells}"

        for row, label in zip(X, y, strict=True):
            workspace.learn(line(row, label))
        hits = [(workspace.predict(line(row)) > 0) == label
                for row, label in zip(X_test, y_test, strict=True)]  # fmt: skip
        workspace.finish()
        # Guessing keeps nothing.
        return np.mean(hits)

    return learn


def chunks():
    """Whether streams in chunks of 1, 7, 64 and all rows are equal to the last bit."""

    def equal(name, make):
        X, y = problem(name, 0, n=300)
        outcomes = set()
        for size in (1, 7, 64, 300):
            model = make()
            for start in range(0, 300, size):
                more = {} if "Regressor" in name else {"classes": [0, 1]}
                part = slice(start, start + size)
                model.partial_fit(X[part], y[part], **more)
            outcomes.add(decide(model, X).tobytes())
        return len(outcomes) == 1

    found = [equal(name, make) for name, make in ours(STREAMS).items()]
    peers = [equal(k, PEERS[k]) for k in ("SGDClassifier", "SGDRegressor", "Perceptron")]
    return (f"{sum(found)} of {len(found)} learners bit-equal",
            f"SGDClassifier, SGDRegressor, Perceptron: {sum(peers)} of {len(peers)}")  # fmt: skip


def replay(counts):
    """Many updates: the state does not grow, weights are stable, and the learner still learns."""
    X, y = problem("PiSTOLClassifier", 0, n=100_000, d=2)
    out = []
    for name, rows in counts.items():
        model, target = maker(name)(), y if "Regressor" not in name else X @ [1.0, -1.0]
        model.partial_fit(X, target)
        size, weights = len(pickle.dumps(model._stream)), model.coef_.copy()
        start = time.process_time()
        for _ in range(rows // len(y) - 1):
            model.partial_fit(X, target)
        spent = time.process_time() - start
        growth = len(pickle.dumps(model._stream)) - size
        ratio = np.abs(model.coef_).max() / np.abs(weights).max()
        out.append(f"{name} {rows:.0e}: {growth:+d} bytes, weights x {ratio:.3g} ({spent:.0f} s)")
    return "; ".join(out), "-"


def counters(rows):
    """float32 rows beyond 2^24, where a counter in float32 stops, against float64."""
    X, y = problem("PiSTOLClassifier", 0, n=100_000, d=2)
    X = X.astype(np.float32)  # the same numbers in both precisions
    out = []
    for name in ("PiSTOLClassifier", "RidgePathRegressor"):
        target = y if "Regressor" not in name else (X @ np.float32([1, -1])).astype(np.float64)
        models = []
        for rows_ in (X, X.astype(np.float64)):
            model = maker(name)()
            for _ in range(rows // len(y)):
                model.partial_fit(rows_, target)
            models.append(model)
        gap = np.abs(models[0].coef_ - models[1].coef_.astype(np.float32)).max()
        same = pickle.dumps(models[0]._stream) == pickle.dumps(models[1]._stream)
        out.append(f"{name} float32 less float64 {gap:.1e}, "
                   f"learner {'bit-equal' if same else 'different'}")  # fmt: skip
    return f"{rows:.2e} updates: " + "; ".join(out), "-"
