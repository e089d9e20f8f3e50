"""The number of rows from which a linear learner on random features beats the exact kernel learner.

The cost of the exact learner grows with the square of the rows, that of a linear learner on M
columns with their number; the linear learner is less accurate on the same rows, but learns many
more rows in the same time. "~": the cost of the exact learner is extrapolated.
"""

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline

from _kernel_ours import estimator
from _kernel_peers import cpu
from _kernel_problems import Problem
from _tables import console, standard_error, table
from tunefree import PiSTOLClassifier

COLUMNS = (300, 1000)
SIZES = {"synthetic": (2000, 8000, 32_000, 128_000), "mnist": (2000, 8000, 30_000)}
PASS = "exact, one pass"
EXACT = 32_000  # beyond, the exact learner's cost is extrapolated by the square of the rows


def synthetic(n=128_000, n_test=10_000):
    """Ten columns, a curved surface in four of them, a fifth of the labels near it noisy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + n_test, 10)).astype(np.float32)
    surface = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.5 * X[:, 3] ** 2 - 0.5
    y = np.where(surface + 0.2 * rng.normal(size=len(X)) > 0, 1, -1)
    return Problem("synthetic", "binary", X[:n], y[:n], X[n:], y[n:], gamma=0.1)


def methods(gamma, exact):
    """Yield (name, model)."""
    if exact:
        yield PASS, lambda p: estimator(p, gamma=gamma, average="uniform")
    for m in COLUMNS:
        for transformer in (Nystroem, RBFSampler):
            yield (
                f"{transformer.__name__}, {m} columns",
                lambda p, t=transformer, m=m: make_pipeline(
                    t(gamma=gamma, n_components=m, random_state=0),
                    PiSTOLClassifier("global", random_state=0),
                ),
            )


def run(problem, sizes):
    """Measure and print one problem."""
    gamma, found = problem.gamma or 0.02, {}
    for size in sizes:
        X, y = problem.rows(size, 0)
        for name, make in methods(gamma, size <= EXACT):
            model, seconds = cpu(lambda make=make, X=X, y=y: make(problem).fit(X, y))
            found[size, name] = seconds, problem.score(model.predict(problem.X_test))
        if size > EXACT:
            last = max(s for s in sizes if s <= EXACT)
            found[size, PASS] = found[last, PASS][0] * (size / last) ** 2, None
    table(
        f"{problem.name}, gamma {gamma}: exact kernel against features and a linear learner",
        ["rows", "method", "test error %", "CPU s", "exact CPU / this"],
        [line(found, size, name, len(problem.y_test)) for size, name in sorted(found, key=by_rows)],
    )
    for name in dict.fromkeys(n for _, n in found if n != PASS):
        cheaper = [s for s in sizes if found[s, name][0] < found[s, PASS][0]]
        start = f"from {min(cheaper):,d} rows on" if cheaper else "at none of these sizes"
        console.print(f"  {name}: cheaper than exact {start}")


def by_rows(key):
    return key[0], key[1] != PASS


def line(found, size, name, n_test):
    """Return one line of the table."""
    seconds, error = found[size, name]
    shown, mark = ("", "~")
    if error is not None:
        shown, mark = f"{100 * error:.2f} +- {100 * standard_error(error, n_test):.2f}", ""
    ratio = "" if name == PASS else f"{found[size, PASS][0] / seconds:.2f}"
    return f"{size:,d}", name, shown, f"{mark}{seconds:.2f}", ratio
