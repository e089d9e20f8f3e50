"""Our side of the kernel benchmark: curves, fits with defaults, and the cost of each part."""

import re
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np

import tunefree
from _kernel_peers import cpu, dense
from _kernel_problems import problem as load_problem
from tunefree.core.process import workers
from tunefree.kernels.bandwidths import BLOCK, Facts
from tunefree.kernels.expansion import Expansion
from tunefree.kernels.kernels import RBF
from tunefree.parts.losses import SmoothedHinge
from tunefree.pistol import kernel_blocked as blocked
from tunefree.pistol.kernel_blocked import KernelBlock, Member, StreamEngine
from tunefree.pistol.kernel_projection import limit_support
from tunefree.pistol.linear import SETTINGS

# The plain average of one pass, as in the paper; one pass with weighted averages; and the default:
# passes and read-outs chosen on held-out rows.
METHODS = {"plain": {"average": "uniform"}, "one pass": {"max_iter": 1}, "default": {}}


def estimator(problem, **options):
    """Return our learner with defaults, except for what belongs to the problem."""
    options = {"kernel": problem.kernel, "random_state": 0, **options}
    if problem.task == "regression":
        return tunefree.KernelPiSTOLRegressor(**options)
    return tunefree.KernelPiSTOLClassifier(**options)


def warm_up():
    """Compile the kernels, or load them from the cache; return the seconds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    classifier, regressor = tunefree.KernelPiSTOLClassifier, tunefree.KernelPiSTOLRegressor

    def fits():
        for form in (X, X.astype(float)):
            for options in METHODS.values():
                classifier(gamma=0.1, **options).fit(form, X[:, 0] > 0)
                classifier(kernel="linear", **options).fit(form, X[:, 0] > 0)
            for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
                classifier().fit(form, y).predict(form)
            regressor().fit(form, X[:, 0]).predict(form)

    return cpu(fits)[1]


def curve(problem, times):
    """Yield (rows, method, row) of the learning curve at the problem's bandwidth."""
    gamma = {} if problem.gamma is None else {"gamma": problem.gamma}
    X_test = problem.X_test if problem.kernel == "linear" else dense(problem.X_test)
    for size, shuffles in times.items():
        for method, options in METHODS.items():
            row = {"errors": [], "cpu": []}
            # Several passes over all rows hardly depend on the order: one shuffle.
            whole = size == problem.n_train and method == "default"
            for shuffle in range(1 if whole else shuffles):
                X, y = problem.rows(size, shuffle)
                X = X if problem.kernel == "linear" else dense(X)
                # The rows' order is drawn from the seed.
                model = estimator(problem, **gamma, **options, random_state=shuffle)
                model, seconds = cpu(lambda m=model, X=X, y=y: m.fit(X, y))
                row["errors"].append(problem.score(model.predict(X_test)))
                row["cpu"].append(seconds)
            yield str(size), method, row


def untuned(problem, **options):
    """Fit with defaults."""
    X, y = problem.rows(problem.n_train, 0)
    model, seconds = cpu(lambda: estimator(problem, **options).fit(X, y))
    row = {"score": problem.score(model.predict(problem.X_test)), "cpu": seconds}
    row["support"] = int(len(model.support_))
    return row, model


def products_alone(problem, size):
    """CPU seconds of a one-pass fit, and of the matrix products it consists of, timed alone.

    The shapes of the products are recorded during the fit; products of the same shapes are then
    computed again, with rows of the data. Of two runs of both the faster one counts.
    """
    X, y = problem.rows(size, 0)
    X = np.float32(dense(X))
    options = {"gamma": problem.gamma or 0.02, "average": "uniform", "n_jobs": 1}
    fits = [cpu(lambda: estimator(problem, **options).fit(X, y)) for _ in range(2)]
    seconds = min(seconds for _, seconds in fits)
    shapes, base = [], blocked.base

    def noted(kernel, root, A, B, out=None):
        shapes.append((len(A.rows), len(B.rows)))
        return base(kernel, root, A, B, out)

    with patch.object(blocked, "base", noted):
        estimator(problem, **options).fit(X, y)

    def products():
        for n, m in shapes:
            X[:n] @ X[:m].T

    alone = min(cpu(products)[1] for _ in range(2))
    flops = 2e-9 * X.shape[1] * sum(n * m for n, m in shapes)
    return {"fit": seconds, "products": alone, "gflops": flops, "support": len(fits[0][0].support_)}


def scoring(problem, n_jobs):
    """Wall and CPU seconds to score the test rows of MNIST against all training rows."""
    X, X_test = np.float32(problem.X_train), np.float32(problem.X_test)
    coef = np.random.default_rng(0).normal(size=(len(X), 10)).astype(np.float32)
    f = Expansion((RBF(0.02),), X, (coef,))
    f(X_test[:10])
    start = time.perf_counter()
    _, seconds = cpu(lambda: f(X_test, n_jobs))
    return {"wall": time.perf_counter() - start, "cpu": seconds}


def whole_mnist(directory):
    """Fit all 60,000 rows in a process of its own, whose memory is then known."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_whole_mnist, str(directory)).result()


def most_memory():
    """Peak memory of this process, kB; in getrusage Linux counts that of the parent, too."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text()).group(1))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _whole_mnist(directory):
    problem = load_problem("mnist", directory)
    before = most_memory()
    warm_up()
    start = time.perf_counter()
    row, model = untuned(problem, n_jobs=2)
    row["wall"] = time.perf_counter() - start
    row["peak"], row["data"] = most_memory() / 1e6, before / 1e6
    row["passes"] = int(model.n_iter_)
    row["gammas"] = [float(g) for g in model.gamma_]
    return row


def compressions(problem, size=15_000):
    """Yield (compress=, report, test error, CPU seconds to score the test rows)."""
    X, y = problem.rows(size, 0)
    for asked in (None, 1e-2, 1e-3, 1e-4, 500):
        model = estimator(problem, gamma=0.02, average="uniform", compress=asked).fit(X, y)
        predicted, seconds = cpu(lambda m=model: m.predict(problem.X_test))
        report = model.compression_ if asked is not None else len(model.support_)
        yield asked, report, problem.score(predicted), seconds


def budgets(problem, size=32_561):
    """Yield (bound, support rows, test error, CPU seconds) of one pass over a9a as a stream."""
    X, y = problem.rows(size, 0)
    X, X_test, y = np.float32(dense(X)), np.float32(dense(problem.X_test)), y[:, None].astype(float)
    members = [Member(problem.gamma, SETTINGS["global"](SmoothedHinge(), size))]
    for budget in (None, 4000, 1000, 250):

        def stream(budget=budget):
            engine = StreamEngine(RBF(), members, 1, X[:0])
            with workers(1) as team:
                for start in range(0, size, BLOCK):
                    rows = slice(start, start + BLOCK)
                    n = len(y[rows])
                    if budget is not None:
                        limit_support(engine, n, budget)
                    facts = Facts.of(engine.kernel, X[rows])
                    block = KernelBlock(facts, None, np.ones(n), y[rows], np.ones(n))
                    engine.learn(team, block)
            return engine

        engine, seconds = cpu(stream)
        f = Expansion((RBF(problem.gamma),), engine.support.rows, (engine.mean(0),))
        error = float(np.mean(np.where(f(X_test, 1) > 0, 1, -1)[:, 0] != problem.y_test))
        yield budget, engine.n_slots, error, seconds
