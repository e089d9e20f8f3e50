"""Checks of estimators that should hold on any data; each gives (ours, peers) in words."""

import pickle
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.svm import SVC

import _data
from tunefree import (
    AveragedSGDRegressor,
    OptimisticPerceptron,
    PiSTOLClassifier,
    PiSTOLRegressor,
    ReflectronClassifier,
    ReflectronRegressor,
)

OURS = {
    "PiSTOLClassifier": lambda: PiSTOLClassifier(random_state=0),
    "PiSTOLRegressor": lambda: PiSTOLRegressor(random_state=0),
    "AveragedSGDRegressor": lambda: AveragedSGDRegressor(random_state=0),
    "ReflectronClassifier": lambda: ReflectronClassifier(random_state=0, max_iter=100),
    "ReflectronRegressor": lambda: ReflectronRegressor("identity", random_state=0, max_iter=100),
    "OptimisticPerceptron": lambda: OptimisticPerceptron(margin=0.05),
}
PEERS = {
    "SGDClassifier": lambda: SGDClassifier(random_state=0),
    "SGDRegressor": lambda: SGDRegressor(random_state=0),
    "Perceptron": lambda: Perceptron(random_state=0),
    "SVC": lambda: SVC(kernel="linear"),
}


def problem(name, seed, n=120, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    regression = "Regressor" in name
    return X, y if regression else (y > np.median(y)).astype(int)


def repetition(seeds):
    """Weights 0 to 3 against rows repeated: the largest relative difference of coefficients."""

    def worst(name, make):
        gap = 0.0
        for seed in range(seeds):
            X, y = problem(name, seed)
            weights = np.random.default_rng(seed).integers(0, 4, len(y))
            one = make().fit(X, y, sample_weight=weights).coef_
            rows = np.repeat(np.arange(len(y)), weights)
            other = make().fit(X[rows], y[rows]).coef_
            gap = max(gap, np.abs(one - other).max() / max(1e-300, np.abs(other).max()))
        return gap

    ours = {name: worst(name, make) for name, make in OURS.items()}
    peers = {name: worst(name, make) for name, make in PEERS.items()}
    return (f"{max(ours.values()):.1e} at most ({max(ours, key=ours.get)})",
            ", ".join(f"{k} {v:.1e}" for k, v in peers.items()))  # fmt: skip


def scales():
    """The metric when columns change their units, against that in the given ones."""
    factors = [1e-8, 1e8, 10.0 ** np.linspace(-6, 6, 4)]

    def worst(name, make, factors):
        X, y = problem(name, 0, n=600)
        base = make().fit(X[:400], y[:400]).score(X[400:], y[400:])
        scores = [make().fit(X[:400] * f, y[:400]).score(X[400:] * f, y[400:]) for f in factors]
        return max(base - s for s in scores)

    names = ("PiSTOLClassifier", "PiSTOLRegressor", "AveragedSGDRegressor", "ReflectronClassifier")
    ours = {name: worst(name, OURS[name], factors) for name in names}
    peers = {
        "SGDClassifier": worst("SGDClassifier", PEERS["SGDClassifier"], factors),
        "SGDRegressor at x100": worst("SGDRegressor", PEERS["SGDRegressor"], [100.0]),
    }
    return (f"loses {max(ours.values()):.4f} at most",
            ", ".join(f"{k} loses {v:.2g}" for k, v in peers.items()))  # fmt: skip


def raw_sets(directory):
    """Ten data sets in raw units, (name, X, y)."""
    out = [
        ("breast cancer", *datasets.load_breast_cancer(return_X_y=True)),
        ("wine", *datasets.load_wine(return_X_y=True)),
        ("digits", *datasets.load_digits(return_X_y=True)),
        ("iris", *datasets.load_iris(return_X_y=True)),
        ("diabetes", *datasets.load_diabetes(return_X_y=True, scaled=False)),
    ]
    if directory is not None:
        for name in ("spam", "magic04", "california", "bike", "elevators"):
            data = _data.load(name, directory)
            out.append((name, data.X_train[:3000], data.y_train[:3000]))
    return out


def defaults(directory, seeds):
    """Default fits on raw data: not finite, or worse than the constant predictor on test rows."""
    tally = {"ours": [0, 0, 0], "peers": [0, 0, 0]}
    sets = raw_sets(directory)
    for name, X, y in sets:
        regression = name in ("diabetes", "california", "bike", "elevators")
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[len(y) // 3 :], order[: len(y) // 3]
            if regression:
                makers = {"ours": [PiSTOLRegressor, AveragedSGDRegressor], "peers": [SGDRegressor]}
                constant = 0.0
            else:
                makers = {"ours": [PiSTOLClassifier], "peers": [SGDClassifier]}
                labels, counts = np.unique(y[train], return_counts=True)
                constant = np.mean(y[test] == labels[counts.argmax()])
            for who, classes in makers.items():
                for cls in classes:
                    model = cls(random_state=seed).fit(X[train], y[train])
                    finite = np.isfinite(model.coef_).all()
                    score = model.score(X[test], y[test]) if finite else -np.inf
                    tally[who][0] += 1
                    tally[who][1] += not finite
                    # A tie on few test rows is chance: half a percent counts.
                    tally[who][2] += score < constant - 0.005

    def words(who):
        fits, broken, worse = tally[who]
        return f"{broken} not finite, {worse} worse than the constant, of {fits}"

    return f"{words('ours')} ({len(sets)} sets x {seeds} seeds)", f"SGD*: {words('peers')}"


def bad_values():
    """NaN and infinity in X, y and weights: refused by name, the state unchanged."""

    def count(makers):
        named = total = kept = 0
        for name, make in makers.items():
            X, y = problem(name, 0)
            model = make().fit(X, y)
            before = pickle.dumps(model)
            for where in ("X", "y", "weight"):
                for value in (np.nan, np.inf):
                    if where == "y" and "Classifier" in name or "weight" == where == name:
                        continue
                    Z, t, w = X.copy(), y.astype(float), np.ones(len(y))
                    {"X": Z, "y": t, "weight": w}[where].flat[3] = value
                    total += 1
                    try:
                        model.fit(Z, t if where == "y" else y, sample_weight=w)
                    except ValueError as problem_:
                        named += where in str(problem_)
                    kept += pickle.dumps(model) == before
        return f"{named} of {total} named, state kept in {kept}"

    names = ("PiSTOLClassifier", "PiSTOLRegressor", "AveragedSGDRegressor", "ReflectronClassifier",
             "ReflectronRegressor")  # fmt: skip
    peers = {k: PEERS[k] for k in ("SGDClassifier", "SGDRegressor")}
    return count({k: OURS[k] for k in names}), f"SGD*: {count(peers)}"


def stream_rows(seed, kind, task):
    """800 rows with an absurd one after 600, and 600 clean test rows."""
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


def absurd(seeds):
    """The least share of clean accuracy that is left after an absurd row and 200 clean ones."""

    def left(learn, task, kinds):
        worst = np.inf
        for kind in kinds:
            clean = dirty = 0.0
            for seed in range(seeds):
                clean += learn(*stream_rows(seed, None, task))
                dirty += learn(*stream_rows(seed, kind, task))
            worst = min(worst, dirty / clean)
        return worst

    def of(make, as_sparse=False):
        def learn(X, y, X_test, y_test):
            X = sparse.csr_array(X) if as_sparse else X
            model = make()
            more = {"classes": [0, 1]} if "Classifier" in type(model).__name__ else {}
            try:
                return model.partial_fit(X, y, **more).score(X_test, y_test)
            except (ValueError, FloatingPointError):
                return 0.0

        return learn

    ours = {}
    for name, make in OURS.items():
        if not hasattr(make(), "partial_fit"):
            continue
        task = "real" if "Regressor" in name else "class"
        kinds = ("x", "huge", "y") if task == "real" else ("x", "huge")
        for as_sparse in (False, True):
            ours[f"{name}{' sparse' * as_sparse}"] = left(of(make, as_sparse), task, kinds)
    peers = {
        "SGDClassifier": left(of(PEERS["SGDClassifier"]), "class", ("x", "huge")),
        "SGDRegressor": left(of(PEERS["SGDRegressor"]), "real", ("x", "huge", "y")),
    }
    for flags in ("", "--coin", "--pistol"):
        peers[f"vw {flags}".strip()] = left(_vw(flags), "class", ("x", "huge"))
    worst = min(ours, key=ours.get)
    return (f"{100 * ours[worst]:.1f} % kept at least ({worst})",
            ", ".join(f"{k} {100 * max(v, 0.0):.0f} %" for k, v in peers.items()))  # fmt: skip


def _vw(flags):
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
        # As good as guessing is nothing kept.
        return np.mean(hits)

    return learn


def chunks():
    """Whether streams in chunks of 1, 7, 64 and all rows are equal to the last bit."""

    def equal(name, make):
        X, y = problem(name, 0, n=300)
        coefs = set()
        for size in (1, 7, 64, 300):
            model = make()
            for start in range(0, 300, size):
                more = {} if "Regressor" in name else {"classes": [0, 1]}
                part = slice(start, start + size)
                model.partial_fit(X[part], y[part], **more)
            coefs.add(model.coef_.tobytes())
        return len(coefs) == 1

    ours = [equal(k, m) for k, m in OURS.items() if hasattr(m(), "partial_fit")]
    peers = [equal(k, PEERS[k]) for k in ("SGDClassifier", "SGDRegressor", "Perceptron")]
    return (f"{sum(ours)} of {len(ours)} learners bit-equal",
            f"SGDClassifier, SGDRegressor, Perceptron: {sum(peers)} of {len(peers)}")  # fmt: skip


def workers():
    """Whether n_jobs 1, 2 and 8 are equal to the last bit."""
    from tunefree import KernelPiSTOLClassifier

    X, y = problem("PiSTOLClassifier", 0, n=300)
    coefs = set()
    for n_jobs in (1, 2, 8):
        model = KernelPiSTOLClassifier(random_state=0, n_jobs=n_jobs, max_iter=2).fit(X, y)
        coefs.add(model.decision_function(X).tobytes())
    return f"{'bit-equal' if len(coefs) == 1 else 'different'} (KernelPiSTOLClassifier)", "-"


def separation(n):
    """Rows that no plane separates: whether the fit ends, without a false certificate."""
    false = over = theirs = 0
    slowest = 0.0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 3))
        y = (X[:, 0] > 0).astype(int)
        X = np.vstack([X, X[:1], rng.normal(size=3) * 0.0 + X[1]])
        y = np.append(y, [1 - y[0], y[1]])  # the same row with both labels
        start = time.process_time()
        model = OptimisticPerceptron().fit(X, y)
        slowest = max(slowest, time.process_time() - start)
        false += bool(model.separated_)
        over += model.n_iter_ > 10_000
        theirs += Perceptron(tol=None, max_iter=1000).fit(X, y).n_iter_ >= 1000
    return (f"{n} sets: {false} false certificates, {over} at the limit, "
            f"{slowest:.2f} s at most",
            f"scikit-learn's Perceptron: {theirs} of {n} cycle to max_iter")  # fmt: skip


def replay(rows):
    """Many updates: the state does not grow, and the weights stay."""
    X, y = problem("PiSTOLClassifier", 0, n=100_000, d=2)
    out = []
    for name in ("PiSTOLClassifier", "PiSTOLRegressor", "AveragedSGDRegressor"):
        model = OURS[name]()
        target = y if "Regressor" not in name else X @ [1.0, -1.0]
        model.partial_fit(X, target)
        size, weights = len(pickle.dumps(model._stream)), model.coef_.copy()
        start = time.process_time()
        for _ in range(rows // len(y) - 1):
            model.partial_fit(X, target)
        spent = time.process_time() - start
        growth = len(pickle.dumps(model._stream)) - size
        ratio = np.abs(model.coef_).max() / np.abs(weights).max()
        out.append(f"{name} {growth:+d} bytes, weights x {ratio:.3g} ({spent:.0f} s)")
    return f"{rows:.0e} updates each: " + "; ".join(out), "-"


def quietly(check, *arguments):
    """Run a check without the warnings of fits that are meant to go wrong."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return check(*arguments)
