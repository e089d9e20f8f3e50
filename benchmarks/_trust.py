"""Checks of fits that should hold on any data; each gives texts (ours, peers)."""

import pickle
import threading
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.svm import SVC

import _data
import tunefree
from tunefree import OptimisticPerceptron

# Parameters of estimators in these checks, if they are not the defaults.
CHOSEN = {
    "ReflectronClassifier": {"max_iter": 100},
    "ReflectronRegressor": {"max_iter": 100},
    "OptimisticPerceptron": {"margin": 0.05},
}
PEERS = {
    "SGDClassifier": lambda: SGDClassifier(random_state=0),
    "SGDRegressor": lambda: SGDRegressor(random_state=0),
    "Perceptron": lambda: Perceptron(random_state=0),
    "SVC": lambda: SVC(kernel="linear"),
}
# Learners of raw data without choices.
AUTOMATIC = [f"{family}{task}" for family in ("PiSTOL", "KernelPiSTOL", "KernelRidge", "TuneFree")
             for task in ("Classifier", "Regressor")] + ["RidgePathRegressor"]  # fmt: skip
# Learners with an outlier filter: not the papers' baselines.
GUARDED = [*AUTOMATIC, *(f"{family}{task}" for family in ("GLM", "Reflectron")
                         for task in ("Classifier", "Regressor"))]  # fmt: skip


def ours(names=None):
    """Functions that make our public estimators of rows: all, or those named."""
    if names is None:
        names = [n for n in tunefree.__all__ if hasattr(getattr(tunefree, n), "predict")]
    return {name: maker(name) for name in names}


def maker(name, **parameters):
    """A function that makes an estimator with a fixed seed."""
    cls = getattr(tunefree, name)
    seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
    return lambda: cls(**(seed | CHOSEN.get(name, {}) | parameters))


def decide(model, X):
    """Decisions of a classifier, predictions of a regressor."""
    return getattr(model, "decision_function", model.predict)(X)


def listed(found):
    """Values by name, as text."""
    return ", ".join(f"{name} {value}" for name, value in found.items())


def problem(name, seed, n=120, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    regression = "Regressor" in name
    return X, y if regression else (y > np.median(y)).astype(int)


def repetition(seeds):
    """Weights 0 to 3 against rows repeated: the largest relative difference of decisions."""

    def worst(name, make):
        gap = 0.0
        for seed in range(seeds):
            X, y = problem(name, seed)
            weights = np.random.default_rng(seed).integers(0, 4, len(y))
            rows = np.repeat(np.arange(len(y)), weights)
            one = decide(make().fit(X, y, sample_weight=weights), X)
            other = decide(make().fit(X[rows], y[rows]), X)
            gap = max(gap, np.abs(one - other).max() / max(1e-300, np.abs(other).max()))
        return gap

    makers = ours()
    del makers["ClassicalPerceptron"]  # takes no weights
    gaps = {name: worst(name, make) for name, make in makers.items()}
    exact = sum(gap == 0.0 for gap in gaps.values())
    top = max(gaps, key=gaps.get)
    return (f"{len(gaps)} estimators: {exact} without any difference, {gaps[top]:.1e} at most "
            f"({top})",
            listed({name: f"{worst(name, make):.1e}" for name, make in PEERS.items()}))  # fmt: skip


def scales():
    """The metric after a change of units of the columns, relative to that before."""
    factors = [1e-8, 1e8, 10.0 ** np.linspace(-6, 6, 4)]

    def worst(name, make, factors):
        X, y = problem(name, 0, n=600)
        base = make().fit(X[:400], y[:400]).score(X[400:], y[400:])
        scores = [make().fit(X[:400] * f, y[:400]).score(X[400:] * f, y[400:]) for f in factors]
        return max(base - s for s in scores)

    makers = ours(GUARDED)
    losses = {name: worst(name, make, factors) for name, make in makers.items()}
    top = max(losses, key=losses.get)
    peers = {
        "SGDClassifier": f"loses {worst('SGDClassifier', PEERS['SGDClassifier'], factors):.2f}",
        "SGDRegressor": f"at x100 {worst('SGDRegressor', PEERS['SGDRegressor'], [100.0]):.1e}",
    }
    return f"{len(losses)} estimators lose {losses[top]:.4f} at most ({top})", listed(peers)


def raw_sets(directory):
    """Ten data sets in raw units, (name, X, y); five where there is no folder."""
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


def defaults(directory, seeds, names, peers=()):
    """Default fits on raw data: not finite, or worse than the constant predictor on test rows."""
    sets = raw_sets(directory)

    def tally(makers):
        fits = broken = 0
        worse = []
        for name, X, y in sets:
            regression = name in ("diabetes", "california", "bike", "elevators")
            for seed in range(seeds):
                order = np.random.default_rng(seed).permutation(len(y))
                train, test = order[len(y) // 3 :], order[: len(y) // 3]
                labels, counts = np.unique(y[train], return_counts=True)
                constant = 0.0 if regression else np.mean(y[test] == labels[counts.argmax()])
                for cls in makers:
                    if ("Regressor" in cls.__name__) != regression:
                        continue
                    model = cls(random_state=seed).fit(X[train], y[train])
                    finite = np.isfinite(np.asarray(decide(model, X[test]), float)).all()
                    score = model.score(X[test], y[test]) if finite else -np.inf
                    fits, broken = fits + 1, broken + (not finite)
                    # Small differences on few test rows are chance: only half a percent counts.
                    if score < constant - 0.005:
                        worse.append(f"{cls.__name__} on {name}")
        named = f" ({', '.join(sorted(set(worse)))})" if 0 < len(set(worse)) < 4 else ""
        return (f"{fits} fits ({len(sets)} sets x {seeds} seeds): {broken} not finite, "
                f"{len(worse)} worse than the constant{named}")  # fmt: skip

    found = tally([getattr(tunefree, name) for name in names])
    return found, f"SGD*: {tally(peers)}" if peers else "-"


def bad_values():
    """NaN and infinity in X, y and weights: refused by name, the state unchanged.

    For TuneFree a NaN in X is a missing value.
    """

    def count(makers):
        named = total = kept = 0
        for name, make in makers.items():
            X, y = problem(name, 0)
            model = make().fit(X, y)
            before = pickle.dumps(model)
            for where in ("X", "y", "weight"):
                for value in (np.nan, np.inf):
                    if where == "y" and "Regressor" not in name:
                        continue
                    if where == "weight" and name == "ClassicalPerceptron":
                        continue
                    if where == "X" and np.isnan(value) and "TuneFree" in name:
                        continue
                    Z, t, w = X.copy(), y.astype(float), np.ones(len(y))
                    {"X": Z, "y": t, "weight": w}[where].flat[3] = value
                    more = {"sample_weight": w} if where == "weight" else {}
                    total += 1
                    try:
                        model.fit(Z, t if where == "y" else y, **more)
                    except ValueError as problem_:
                        named += where in str(problem_)
                    kept += pickle.dumps(model) == before
        return f"{named} of {total} named, state kept in {kept}"

    makers = ours()
    peers = {k: PEERS[k] for k in ("SGDClassifier", "SGDRegressor")}
    return f"{len(makers)} estimators: {count(makers)}", f"SGD*: {count(peers)}"


def workers():
    """Whether n_jobs 1, 2 and 8 are equal to the last bit."""
    names = [n for n, make in ours().items() if "n_jobs" in make().get_params()]
    equal = 0
    for name in names:
        X, y = problem(name, 0, n=300)
        outcomes = set()
        for n_jobs in (1, 2, 8):
            model = maker(name, n_jobs=n_jobs)().fit(X, y)
            outcomes.add(decide(model, X).tobytes())
        equal += len(outcomes) == 1
    return f"{equal} of {len(names)} estimators with n_jobs bit-equal", "-"


def threads():
    """Whether eight fits in threads of one process are bit-equal to a fit alone."""
    makers, equal = ours(), 0
    for name, make in makers.items():
        X, y = problem(name, 0)
        alone = decide(make().fit(X, y), X).tobytes()
        found = []

        def fit(X=X, y=y, make=make, found=found):
            found.append(decide(make().fit(X, y), X).tobytes())

        running = [threading.Thread(target=fit) for _ in range(8)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        equal += found == [alone] * 8
    return f"{equal} of {len(makers)} estimators bit-equal", "-"


def separation(n):
    """Inseparable rows: whether the fit ends, without a false certificate."""
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


def quietly(check, *arguments):
    """Run a check without the warnings of fits that should fail."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return check(*arguments)
