"""The cluster's part of `scale.py`: speed-up against its ceiling, dying workers, merged averages.

python benchmarks/_cluster.py [--rows N] [--columns D] [--kills K] [--data DIR] runs it alone.
"""

import argparse
import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np

BLOCK = 250_000


def block(index, rows, columns):
    """Rows of one partition, the same wherever they are made."""
    rng = np.random.default_rng(index)
    X = rng.standard_normal((rows, columns))
    y = 1.0 / (1.0 + np.exp(-X[:, 0] + X[:, 1])) + 0.05 * rng.standard_normal(rows)
    return X, y


def collections(n, d, size=BLOCK):
    """The rows as Dask arrays, made on the workers."""
    import dask.array as da

    from dask import delayed

    pieces = [
        delayed(block, nout=2)(i, min(size, n - start), d)
        for i, start in enumerate(range(0, n, size))
    ]
    sizes = [min(size, n - start) for start in range(0, n, size)]
    X = [da.from_delayed(p[0], (m, d), float) for p, m in zip(pieces, sizes, strict=True)]
    y = [da.from_delayed(p[1], (m,), float) for p, m in zip(pieces, sizes, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def _products(indices, n, d, passes, ready, out):
    """One process: the two products of every pass over its share of the partitions."""
    parts = [block(i, min(BLOCK, n - i * BLOCK), d)[0] for i in indices]
    theta, times = np.zeros(d), []
    ready.wait()
    for _ in range(passes):
        start = time.perf_counter()
        for X in parts:
            r = X @ theta
            X.T @ r
        times.append(time.perf_counter() - start)
    out.put(float(np.median(times)))


def ceiling(n, d, processes, passes=12):
    """Seconds a pass of independent processes that do the same products and nothing else."""
    context = get_context("spawn")
    ready, out = context.Barrier(processes), context.Queue()
    shares = [range(k, -(-n // BLOCK), processes) for k in range(processes)]
    running = [
        context.Process(target=_products, args=(share, n, d, passes, ready, out))
        for share in shares
    ]
    for process in running:
        process.start()
    slowest = max(out.get() for _ in running)
    for process in running:
        process.join()
    return slowest


@contextmanager
def _cluster(workers):
    """A client of so many worker processes of one thread."""
    from distributed import Client, LocalCluster

    # The first positional argument of LocalCluster is a name.
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def fit_seconds(X, y, passes):
    """Wall seconds of a fit of so many passes, its coefficients, and when each pass began."""
    from tunefree.dask import ReflectronRegressor
    from tunefree.dask.cluster import Sheets

    began, sweep = [], Sheets.sweep

    def timed(self, learner, state, epoch):
        began.append(time.perf_counter())
        return sweep(self, learner, state, epoch)

    model = ReflectronRegressor(
        potential="euclidean", validation_fraction=0.0, tol=1e-300, patience=10_000,
        max_iter=passes, random_state=0,
    )  # fmt: skip
    Sheets.sweep, start = timed, time.perf_counter()
    try:
        model.fit(X, y)
    finally:
        Sheets.sweep = sweep
    return time.perf_counter() - start, model.coef_, began


def pass_seconds(X, y, passes=20):
    """Wall seconds of a pass, the median, and of what comes before the first one."""
    seconds, _, began = fit_seconds(X, y, passes)
    steps = np.diff(began)
    return float(np.median(steps[2:])), seconds - steps.sum()


def speed(n, d):
    """A pass on one and two workers beside what independent processes reach."""
    from distributed import wait

    print(f"\nBatch Reflectron, n = {n:,}, d = {d}, partitions of {BLOCK:,}: wall seconds a pass")
    found = {}
    for workers in (1, 2):
        before = ceiling(n, d, workers)
        with _cluster(workers) as client:
            X, y = client.persist(list(collections(n, d)))
            wait([X, y])
            a_pass, setup = pass_seconds(X, y)
        best = min(before, ceiling(n, d, workers))
        found[workers] = a_pass
        print(
            f"  {workers} worker(s): {a_pass:.3f}; products alone in {workers} independent "
            f"process(es): {best:.3f}; {best / a_pass:.0%} of the ceiling; "
            f"before the first pass {setup:.1f}",
            flush=True,
        )
    print(f"  two workers against one: {found[1] / found[2]:.2f} times as fast")


def overhead(partitions=(8, 64, 256), d=200):
    """What a pass costs when there is nothing to multiply."""
    from distributed import wait

    print(f"\nA pass over partitions of ten rows, d = {d}, two workers: wall milliseconds")
    with _cluster(2) as client:
        for p in partitions:
            X, y = client.persist(list(collections(10 * p, d, 10)))
            wait([X, y])
            a_pass, _ = pass_seconds(X, y)
            print(f"  {p:4} partitions  {1e3 * a_pass:6.1f}  ({1e3 * a_pass / p:.2f} each)",
                  flush=True)  # fmt: skip


def _pids(client, workers):
    """The processes of all workers, once they are there."""
    while True:
        client.wait_for_workers(workers, timeout=300)
        try:
            found = client.run(os.getpid)
        except OSError:  # the scheduler has not noticed yet that one is gone
            found = {}
        if len(found) == workers:
            return list(found.values())
        time.sleep(0.2)


def kills(times, n=40_000, d=50, workers=4, passes=15):
    """SIGKILL of one of four workers in mid-fit, again and again."""
    print(f"\nSIGKILL of one of {workers} workers in mid-fit, {times} times, n = {n:,}, d = {d}",
          flush=True)  # fmt: skip
    rng, gaps, slowest, late = np.random.default_rng(0), [], 0.0, 0
    with _cluster(workers) as client:
        X, y = collections(n, d, n // 16)
        fit_seconds(X, y, passes)
        calm_seconds, calm, _ = fit_seconds(X, y, passes)
        while len(gaps) < times:
            victim, struck_at = rng.choice(_pids(client, workers)).item(), []

            def strike(victim=victim, struck_at=struck_at):
                os.kill(victim, signal.SIGKILL)
                struck_at.append(time.perf_counter())

            killer = threading.Timer(float(rng.uniform(0.05, 0.8)) * calm_seconds, strike)
            killer.start()
            seconds, coef, _ = fit_seconds(X, y, passes)
            ended = time.perf_counter()
            killer.join()
            if struck_at[0] >= ended:  # too late: this fit does not count
                late += 1
                continue
            gaps.append(np.abs(coef - calm).max())
            slowest = max(slowest, seconds)
    print(f"  {len(gaps)} of {times} fits finished; largest difference {max(gaps):.1e}; "
          f"slowest {slowest:.1f} s (undisturbed {calm_seconds:.1f} s); "
          f"{late} strikes came after the fit and are not counted", flush=True)  # fmt: skip


def online(data):
    """Averages of independent runs beside the sequential run, a9a."""
    import dask.array as da

    from _data import load
    from tunefree import PiSTOLClassifier
    from tunefree.dask import PiSTOLClassifier as OnCluster

    d = load("a9a", data)
    X, X_test = d.X_train.toarray(), d.X_test.toarray()
    order = np.random.default_rng(0).permutation(len(d.y_train))
    X, y = X[order], np.asarray(d.y_train)[order]
    alone = PiSTOLClassifier(random_state=0).fit(X, y)
    print("\nPiSTOLClassifier on a9a: test error of averaged predictors")
    print(f"  sequential       {np.mean(alone.predict(X_test) != d.y_test):.4f}")
    with _cluster(2):
        for parts in (2, 4, 8, 16, 32):
            chunk = -(-len(y) // parts)
            model = OnCluster(random_state=0).fit(
                da.from_array(X, chunks=(chunk, X.shape[1])), da.from_array(y, chunks=chunk)
            )
            error = np.mean(model.to_local().predict(X_test) != d.y_test)
            print(f"  {parts:2} partitions    {error:.4f}", flush=True)


def run_part(n, d, times, data):
    """All four tables."""
    warnings.simplefilter("ignore")
    speed(n, d)
    overhead()
    kills(times)
    if data is not None:
        online(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--data", type=Path)
    chosen = parser.parse_args()
    run_part(chosen.rows, chosen.columns, chosen.kills, chosen.data)
