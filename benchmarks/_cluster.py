"""The cluster part of `scale.py`: a pass against its upper bound, dying workers, merged averages.

python benchmarks/_cluster.py [--rows N] [--columns D] [--kills K] [--data DIR] [--only PART ...]
runs it alone.
"""

import argparse
import os
import time
import warnings
from contextlib import contextmanager
from logging import CRITICAL
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from _tables import table

BLOCK = 250_000


def block(index, rows, columns):
    """Rows of one partition, equal wherever they are made."""
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


def _products(pipe, indices, n, d):
    """One process: the two products of a pass over its share of the partitions, on request."""
    from tunefree.dask.estimators import PIECE

    parts = [block(i, min(BLOCK, n - i * BLOCK), d)[0] for i in indices]
    theta = np.zeros(d)
    pipe.send("ready")
    while (passes := pipe.recv()) is not None:
        found = []
        for rows in (PIECE // d, BLOCK):
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(passes):
                for X in parts:
                    for start in range(0, len(X), rows):
                        some = X[start : start + rows]
                        (some @ theta) @ some
            found += [time.perf_counter() - wall, time.process_time() - cpu]
        pipe.send(np.divide(found, passes))


class Ceiling:
    """Independent processes with their arguments, which return `(wall, CPU)` seconds on request.

    They compute the products twice: in pieces that fit into the cache, like the learner, and for
    whole partitions.
    """

    def __init__(self, target, arguments):
        context = get_context("spawn")
        self.pipes, self.processes = [], []
        for each in arguments:
            pipe, theirs = context.Pipe()
            process = context.Process(target=target, args=(theirs, *each), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(pipe)
            self.processes.append(process)
        for pipe in self.pipes:
            pipe.recv()

    def seconds(self, passes):
        """Wall seconds of the slowest process and CPU seconds of all, for a pass."""
        for pipe in self.pipes:
            pipe.send(passes)
        found = np.array([pipe.recv() for pipe in self.pipes]).reshape(len(self.pipes), -1, 2)
        return np.stack([found[:, :, 0].max(axis=0), found[:, :, 1].sum(axis=0)], axis=1)

    def close(self):
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(None)
            process.join()


@contextmanager
def local(workers, threads=1, sampled=True):
    """A client with so many worker processes, with or without Dask's profiler in the workers.

    A local cluster gives up a worker that is missing 15 s after it died, even if it has restarted
    and died again, as in these benchmarks: the limit is higher here.
    """
    from distributed import Client, LocalCluster

    from dask import config

    # The first positional argument of LocalCluster is a name.
    with (
        config.set({"distributed.worker.profile.enabled": sampled}),
        config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            dashboard_address=":0",
            silence_logs=CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def _watched(before):
    """`before` is called at the start of every pass."""
    from tunefree.dask.cluster import RemoteBatches

    sweep = RemoteBatches.sweep

    def watched(self, learner, state, epoch, on_block=None):
        before(epoch)
        return sweep(self, learner, state, epoch, on_block)

    RemoteBatches.sweep = watched
    try:
        yield
    finally:
        RemoteBatches.sweep = sweep


def settings(passes, potential="euclidean"):
    """Settings of a Reflectron that makes so many passes; some are no parameters."""
    return {
        "link": "logit", "potential": potential, "tol": 1e-300, "patience": 10_000,
        "validation_fraction": 0.0 if potential == "euclidean" else 0.2,
        "max_iter": passes, "random_state": 0,
    }  # fmt: skip


def fit_seconds(X, y, passes, before=lambda epoch: None, potential="euclidean", **options):
    """Wall seconds of a fit of so many passes, and its coefficients."""
    from tunefree.dask import DaskReflectronRegressor

    model = DaskReflectronRegressor()
    vars(model).update(settings(passes, potential))
    start = time.perf_counter()
    with _watched(before):
        model.fit(X, y, **options)
    return time.perf_counter() - start, model.coef_


def _cpu(pids):
    """CPU seconds of processes so far, of all threads."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _compared(alone, collect, workers, rounds, passes, potential="euclidean"):
    """Passes of a fit on so many workers, alternating with independent processes."""
    from distributed import wait

    with local(workers, sampled=False) as client:
        rows = client.persist(list(collect()))
        wait(rows)
        alternating = _Alternating(alone, passes, [os.getpid(), *pids_of(client, workers)])
        fit_seconds(*rows, 2 + passes * rounds + 1, alternating, potential)
    alone.close()
    return alternating


_COLUMNS = "ms", "CPU", "client's", "alone: ms", "CPU", "share", "of CPU", "rounds", "load"


def speed(n, d, rounds=8, passes=4):
    """Passes of a fit, alternating with independent processes."""
    print(
        f"\nBatch Reflectron, n = {n:,}, d = {d}, partitions of {BLOCK:,}: a pass,\n"
        "and its two products in as many independent processes, which wait during the fit:\n"
        f"medians of {rounds} rounds of {passes} passes. CPU time is that of all processes,\n"
        "and that of the client with the scheduler separately."
    )
    rows = []
    for workers in (1, 2):
        shares = [(range(k, -(-n // BLOCK), workers), n, d) for k in range(workers)]
        alternating = _compared(
            Ceiling(_products, shares), lambda: collections(n, d), workers, rounds, passes
        )
        for k, how in enumerate(("in pieces", "whole")):
            rows.append((workers, how, *alternating.row(k)))
    table("A pass and its ceiling", ("workers", "products", *_COLUMNS), rows)


def _fits(pipe, X, y, potential):
    """One process: a fit of its own rows, `passes` of it on request."""
    import tunefree
    from tunefree.engine.run import Batches

    warnings.simplefilter("ignore")
    blocks, begun, wanted, passes = Batches.blocks, None, 0, 1

    def watched(self, epoch):
        nonlocal begun, wanted, passes
        if epoch < 2:  # to warm up
            return blocks(self, epoch)
        if begun is None:
            pipe.send("ready")
        elif epoch == wanted:
            pipe.send(np.subtract((time.perf_counter(), time.process_time()), begun) / passes)
        if begun is None or epoch == wanted:
            if (passes := pipe.recv()) is None:
                raise SystemExit
            begun, wanted = (time.perf_counter(), time.process_time()), epoch + passes
        return blocks(self, epoch)

    Batches.blocks = watched
    model = tunefree.ReflectronRegressor()
    vars(model).update(settings(100_000, potential), n_jobs=1)
    model.fit(X, y)


def tables(data, rounds=8, passes=4):
    """Public tables: passes on two workers, alternating with fits of one half in two processes."""
    from scipy import sparse

    from _cluster_online import cut
    from _data import load

    X, y = load("a9a", data)[2:4]
    copies = [X * (1.0 + 1e-3 * k) for k in range(32)]  # equal rows would be learned as one
    a9a = sparse.vstack(copies, "csr"), np.tile(y, 32)
    news = load("newsgroups", data)[2:4]
    print(
        f"\nBatch Reflectron on two workers, against a fit of half the rows in each of two\n"
        f"processes without Dask, with one thread: medians of {rounds} rounds of {passes} passes.\n"
        "CPU time is that of all processes, and that of the client with the scheduler separately.\n"
        "MB: each worker gets one number a potential for each column that is not empty there (if\n"
        "there are many columns; else for all), and sends one.",
        flush=True,
    )
    found = []
    for name, (X, y), how in (("a9a x 32", a9a, 1), ("a9a x 32", a9a, 5), ("newsgroups", news, 1)):
        y, order = (y > 0).astype(float), np.random.default_rng(0).permutation(len(y))
        potential = "euclidean" if how == 1 else "auto"
        halves = np.array_split(order, 2)
        alone = Ceiling(_fits, [(X[half], y[half], potential) for half in halves])

        def collect(X=X, y=y, order=order):
            return cut(X[order], y[order], 2)

        alternating = _compared(alone, collect, 2, rounds, passes, potential)
        wide = X.shape[1] > 1 << 17
        held = sum(len(np.unique(X[h].indices)) if wide else X.shape[1] for h in halves)
        moved = f"{2 * 8 * how * held / 1e6:.2g}"
        found.append((name, f"{X.shape[0]} x {X.shape[1]}", how, moved, *alternating.row(0)))
    heads = ("data", "rows", "potentials", "MB", *_COLUMNS)
    table("Two workers and two independent processes", heads, found)


class _Alternating:
    """Called at the start of a pass: runs the independent processes in between, and times both."""

    def __init__(self, alone, passes, pids):
        self.alone, self.passes, self.pids = alone, passes, pids
        self.ours, self.ceilings, self.loads, self.mark = [], [], [], None

    def __call__(self, epoch):
        round_, place = divmod(epoch - 2, self.passes)  # two passes to warm up
        if round_ < 0 or place:
            return
        if self.mark is not None:
            self.ours.append(np.subtract(self._now(), self.mark) / self.passes)
        self.ceilings.append(self.alone.seconds(self.passes))
        self.loads.append(os.getloadavg()[0])
        self.mark = self._now()

    def _now(self):
        return time.perf_counter(), _cpu(self.pids), _cpu(self.pids[:1])

    def row(self, k):
        """Medians of a pass, ours and of the k-th kind of products, and their ratios."""
        ours, ceilings = np.array(self.ours), np.array(self.ceilings[: len(self.ours)])[:, k]
        shares = ceilings / ours[:, :2]
        times = (*np.median(ours, axis=0), *np.median(ceilings, axis=0))
        return (
            *(f"{1e3 * v:.0f}" for v in times), *(f"{v:.0%}" for v in np.median(shares, axis=0)),
            f"{shares[:, 0].min():.0%}-{shares[:, 0].max():.0%}", f"{np.median(self.loads):.1f}",
        )  # fmt: skip


def overhead(d=200, passes=30):
    """The cost of a pass without products."""
    from distributed import wait

    rows = []
    for threads, counts in ((1, (8, 64, 256)), (8, (256,))):
        with local(2, threads) as client:
            pids = [os.getpid(), *pids_of(client, 2)]
            for p in counts:
                X, y = client.persist(list(collections(10 * p, d, 10)))
                wait([X, y])
                began = []

                def before(epoch, began=began, pids=pids):
                    began.append((time.perf_counter(), _cpu(pids)))

                fit_seconds(X, y, passes, before)
                wall, cpu = np.array(began)[2:].T
                load = os.getloadavg()[0]
                rows.append(
                    (2 * threads, p, f"{1e3 * np.median(np.diff(wall)):.1f}",
                     f"{1e3 * np.diff(wall).min():.1f}",
                     f"{1e3 * (cpu[-1] - cpu[0]) / (len(cpu) - 1):.1f}", f"{load:.1f}")
                )  # fmt: skip
    table(
        f"A pass over partitions of ten rows, d = {d}, two worker processes: milliseconds",
        ("tasks", "partitions", "wall", "least wall", "CPU of all processes", "load"),
        rows,
    )


def pids_of(client, workers):
    """The processes of all workers, when they have started."""
    while True:
        client.wait_for_workers(workers, timeout=300)
        try:
            found = client.run(os.getpid)
        except OSError:  # the scheduler has not yet noticed that one has died
            found = {}
        if len(found) == workers:
            return list(found.values())
        time.sleep(0.2)


PARTS = ("speed", "tables", "overhead", "kills", "hangs", "online")


def run_part(n, d, times, data, only=PARTS):
    """All tables, or some."""
    from _cluster_faults import hangs, kills
    from _cluster_online import online

    warnings.simplefilter("ignore")
    parts = {
        "speed": lambda: speed(n, d),
        "tables": lambda: tables(data) if data is not None else None,
        "overhead": overhead,
        "kills": lambda: kills(times),
        "hangs": lambda: hangs(-(-times // 5)),  # each takes `patience` seconds
        "online": lambda: online(data) if data is not None else None,
    }
    for name in only:
        parts[name]()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    chosen = parser.parse_args()
    run_part(chosen.rows, chosen.columns, chosen.kills, chosen.data, chosen.only)
