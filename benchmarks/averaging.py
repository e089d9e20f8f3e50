"""Averages of SGD as regularization: test errors, times, peers, and averaging by several workers.

python benchmarks/averaging.py [--data ../shared/data] [table auto cost sparse parallel]
"""

import argparse
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge, RidgeCV, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _data import load
from _tables import console, table
from papers.stored_iterates import average_iterates, chunk_sums
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.parts.averaging import Geometric, Uniform
from tunefree.ridge_path.estimators import RidgePathRegressor, sgd_ridge_path
from tunefree.ridge_path.path import SGD, averages, compress
from tunefree.rows.order import hashed_visits

ALPHAS = np.logspace(-3, 5, 50)
SCHEMES = ("last", "tail", "uniform", "geometric", "auto")
PASSES = (1, 5, 20)


def split(X, y, share=0.3):
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[: int(share * len(y))], order[int(share * len(y)) :]
    return X[train], y[train], X[test], y[test]


def synthetic(n, d, noise=1.0):
    """Return rows with standard deviations 1 / j along rotated axes; 5000 are test rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 5000, d)) / np.arange(1, d + 1)
    X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    clean = X @ rng.normal(size=d)
    y = clean + noise * clean.std() * rng.normal(size=len(X))
    return X[:n], y[:n], X[n:], y[n:]


def sets(directory):
    """Yield the data sets of the theory page."""
    yield "diabetes", split(*load_diabetes(return_X_y=True, scaled=False))
    X, y = load_digits(return_X_y=True)
    yield "digits == 8", split(X, (y == 8).astype(float))
    yield "california", load("california", directory)[2:6]
    yield "ill-conditioned 2000 x 100", synthetic(2000, 100)
    yield "n < d, 360 x 400", synthetic(360, 400)


def timed(call):
    """Return the result, CPU seconds and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    out = call()
    return out, time.process_time() - cpu, time.perf_counter() - wall


def mse(model, X, y):
    return float(np.mean((model.predict(X) - y) ** 2))


def ridge_cv():
    return make_pipeline(StandardScaler(), RidgeCV(ALPHAS))


def errors(directory):
    """Print test MSE relative to RidgeCV for every scheme after 1, 5, 20 passes."""
    rows = []
    for name, (X, y, X_test, y_test) in sets(directory):
        ridge = mse(ridge_cv().fit(X, y), X_test, y_test)
        for scheme in SCHEMES:
            cells = []
            for n_passes in PASSES:
                model = RidgePathRegressor(scheme, solver="sgd", max_iter=n_passes, random_state=0)
                cells.append(f"{mse(model.fit(X, y), X_test, y_test) / ridge:.3f}")
            rows.append([name if scheme == SCHEMES[0] else "", scheme, *cells])
        exact = RidgePathRegressor(solver="exact").fit(X, y)
        rows.append(["", "solver='exact'", *[f"{mse(exact, X_test, y_test) / ridge:.3f}"] * 3])
    title = "Test MSE relative to RidgeCV (standardised columns, leave-one-out over 50 values)"
    table(title, ["data", "average", *(f"{p} passes" for p in PASSES)], rows)


def automatic(directory):
    """Print the default estimator, solver='sgd', RidgeCV and an averaged SGDRegressor."""
    rows, worst = [], 0.0
    names = ("protein", "bike", "elevators", "pol", "california", "kin40k", "pumadyn32nm")
    RidgePathRegressor(solver="sgd").fit(np.eye(9), np.arange(9.0))
    for name in names:
        X, y, X_test, y_test = load(name, directory)[2:6]
        peer = make_pipeline(StandardScaler(), SGDRegressor(average=True, random_state=0))
        models = {
            "auto": RidgePathRegressor(random_state=0),
            "sgd": RidgePathRegressor(solver="sgd", random_state=0),
            "RidgeCV": ridge_cv(),
            "SGDRegressor": peer,
        }
        found = {}
        for key, model in models.items():
            _, cpu, _ = timed(partial(model.fit, X, y))
            found[key] = mse(model, X_test, y_test), cpu
        ridge = found["RidgeCV"][0]
        worst = max(worst, found["auto"][0] / ridge)
        cells = [f"{found[k][0] / ridge:.4f}" for k in ("auto", "sgd", "SGDRegressor")]
        rows.append([name, *cells, *(f"{found[k][1]:.2f}" for k in models)])
    head = ["data", "auto", "sgd", "SGD(avg)", "auto s", "sgd s", "RidgeCV s", "SGD(avg) s"]
    table("Test MSE relative to RidgeCV, and CPU seconds", head, rows)
    console.print(f"solver='auto': worst ratio {worst:.4f} (target 1.02)\n")


def cost(directory):
    """Print the cost of 50 averages, of a plain pass, and of a plain product (d, n) (n, 50)."""
    X, y, _, _ = load("mnist", directory)[2:6]
    X = X / 255.0 - np.mean(X / 255.0, axis=0)
    y = (y % 2 == 0)[:, None] - 0.5
    visits = hashed_visits(X, y, np.ones(len(y)), 0)
    step = 0.5 / np.einsum("ij,ij->i", X, X).max()
    learner, n = SGD(step), int(visits.repeats.sum())
    schemes = [Geometric(rate) for rate in np.logspace(-8, -2, 50)]

    def one_pass():
        return run(learner, learner.init(X.shape[1], 1), Rows(X, y, visits)).state

    def all_averages(state):
        kept, mix = compress(schemes, n + 1)
        return averages(state, kept, X, np.empty(0))[:, :, 0] @ mix

    state = one_pass()
    all_averages(state)
    ones = np.ones((len(y), 50))
    passed = min(timed(one_pass)[1] for _ in range(5))
    plain = min(timed(lambda: X.T @ ones)[1] for _ in range(5))
    whole = min(timed(lambda: all_averages(state))[1] for _ in range(5))
    rows = [["one plain pass", f"{passed:.3f}"], ["product (d, n) (n, 50)", f"{plain:.3f}"]]
    rows += [["50 averages from the stored scalars", f"{whole:.3f}"]]
    rows += [["50 averages / product", f"{whole / plain:.2f}"]]
    rows += [["(pass + averages) / (pass + 1.3 products)",
              f"{(passed + whole) / (passed + 1.3 * plain):.2f}"]]  # fmt: skip
    rows += [["products of which all 50 are combinations", str(len(compress(schemes, n + 1)[0]))]]
    table("MNIST, even or odd, 60000 x 784: CPU seconds", ["what", "value"], rows)


def newsgroups(directory, n_ridge):
    """Print errors and times on sparse text, and those of a path of Ridge and of SGDRegressor."""
    X, y, X_test, y_test = load("newsgroups", directory)[2:6]
    y = y.astype(float)
    sgd_ridge_path(X[:99], y[:99])

    def error(predicted):
        return 100 * float(np.mean(np.sign(predicted) != y_test))

    rows = []
    (_, coefs, offsets), cpu, wall = timed(lambda: sgd_ridge_path(X, y, max_iter=1, random_state=0))
    best = min(error(X_test @ coefs[:, k] + offsets[k]) for k in (0, 15, 25, 35, 49))
    rows.append(["sgd_ridge_path, 50 alphas, 1 pass", f"{best:.2f}", f"{cpu:.2f}", f"{wall:.2f}"])
    del coefs
    for n_passes in (1, 3, 10, "auto"):
        for scheme in ("tail", "last", "auto"):
            model = RidgePathRegressor(scheme, max_iter=n_passes, standardize=False, random_state=0)
            _, cpu, wall = timed(partial(model.fit, X, y))
            name = f"RidgePathRegressor({scheme!r}, standardize=False), {n_passes} passes"
            rows.append([name, f"{error(model.predict(X_test)):.2f}", f"{cpu:.2f}", f"{wall:.2f}"])
    model = RidgePathRegressor(random_state=0)
    _, ours, wall = timed(partial(model.fit, X, y))
    found = error(model.predict(X_test))
    rows.append(["RidgePathRegressor()", f"{found:.2f}", f"{ours:.2f}", f"{wall:.2f}"])
    peer = SGDRegressor(average=True, random_state=0)
    _, cpu, wall = timed(partial(peer.fit, X, y))
    rows.append(["SGDRegressor(average=True)", f"{error(peer.predict(X_test)):.2f}", f"{cpu:.2f}",
                 f"{wall:.2f}"])  # fmt: skip
    total, lowest = 0.0, np.inf
    for alpha in np.logspace(1, -2, 10)[:: max(1, 10 // n_ridge)]:
        ridge = Ridge(alpha, solver="sparse_cg")
        _, cpu, wall = timed(partial(ridge.fit, X, y))
        total, lowest = total + cpu, min(lowest, error(ridge.predict(X_test)))
        name = f"Ridge({alpha:.2g}, solver='sparse_cg')"
        rows.append([name, f"{error(ridge.predict(X_test)):.2f}", f"{cpu:.2f}", f"{wall:.2f}"])
    table("Newsgroups-like, 11314 x 1440395 sparse: test error in %, seconds",
          ["method", "error %", "CPU s", "wall s"], rows)  # fmt: skip
    console.print(
        f"Ours {found:.2f} %, best Ridge {lowest:.2f} %; CPU of the Ridge path / ours: "
        f"{total / ours:.1f} (target 10)\n"
    )


def spin(n=3_000_000):
    """Count: the work of a worker that shares nothing."""
    for _ in range(n):
        pass


def two_at_once():
    """The speed-up by two processes that share nothing: 2 on two idle cores."""
    pool = Parallel(n_jobs=2, prefer="processes")
    pool(delayed(spin)(1) for _ in range(2))
    one = min(timed(spin)[2] for _ in range(5))
    two = min(timed(lambda: pool(delayed(spin)() for _ in range(2)))[2] for _ in range(5))
    return 2.0 * one / two


def parallel():
    """Print strong and weak scaling of averaging stored iterates on 1 and 2 workers."""
    n, d = 60_000, 500
    schemes = [Uniform(), *(Geometric(rate) for rate in np.logspace(-6, -2, 49))]
    before = two_at_once()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        # Processes share a file that is mapped into memory; no worker gets a copy.
        iterates = np.memmap(Path(folder) / "w", mode="w+", dtype=float, shape=(n, d))
        iterates[:] = np.random.default_rng(0).normal(size=(n, d))
        half = n // 2
        every = min(timed(lambda: chunk_sums(iterates, schemes))[1] for _ in range(5))
        last = min(timed(lambda: chunk_sums(iterates[half:], schemes, half))[1] for _ in range(5))
        parts = np.zeros((2, len(schemes), d))
        joined = min(timed(lambda: (parts[0] + parts[1]) / 2.0)[1] for _ in range(5))
        both = last + joined
        rows.append(["CPU of the slowest worker", f"{every:.3f}", f"{both:.3f}",
                     f"{every / both:.2f}", f"{last / both:.2f}"])  # fmt: skip
        for prefer in ("threads", "processes"):
            calls = [
                partial(average_iterates, iterates[:size], schemes, n_jobs=n_jobs, prefer=prefer)
                for size, n_jobs in ((n, 1), (n, 2), (half, 1))
            ]
            for call in calls:
                call()
            one, two, less = np.min([[timed(f)[2] for f in calls] for _ in range(8)], axis=0)
            rows.append([f"wall time, {prefer}", f"{one:.3f}", f"{two:.3f}", f"{one / two:.2f}",
                         f"{less / two:.2f}"])  # fmt: skip
        same = np.abs(
            average_iterates(iterates, schemes, n_jobs=2, prefer="processes")
            - average_iterates(iterates, schemes)
        ).max()
    head = ["seconds", "1 worker", "2 workers", "speed-up (strong)", "efficiency (weak)"]
    table("Averaging 60000 x 500 stored iterates under 50 schemes", head, rows)
    console.print(
        f"Largest difference between 1 and 2 processes: {same:.1e}. Two processes that only count "
        f"got {before:.2f} (before) and {two_at_once():.2f} (after) times the work of one done "
        "here: the limit of any wall time above.\n"
    )


def main():
    """Run the parts named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="table auto cost sparse parallel")
    parser.add_argument("--data", default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--ridge", type=int, default=10, help="values of the Ridge path")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    parts = {
        "table": lambda: errors(args.data),
        "auto": lambda: automatic(args.data),
        "cost": lambda: cost(args.data),
        "sparse": lambda: newsgroups(args.data, args.ridge),
        "parallel": parallel,
    }
    for name in args.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
