"""Workers that die or hang during a fit: the cluster part of `scale.py`."""

import contextlib
import os
import signal
import threading
import time

import numpy as np

from _cluster import collections, fit_seconds, local, pids_of


def kills(times, n=40_000, d=50, workers=4, passes=15):
    """SIGKILL of one of four workers during a fit, again and again."""
    print(f"\nSIGKILL of one of {workers} workers during a fit, {times} times, n = {n:,}, d = {d}",
          flush=True)  # fmt: skip
    rng, gaps, slowest, late = np.random.default_rng(0), [], 0.0, 0
    with local(workers) as client:
        X, y = collections(n, d, n // 16)
        fit_seconds(X, y, passes)
        calm_seconds, calm = fit_seconds(X, y, passes)
        while len(gaps) < times:
            victim, killed_at = rng.choice(pids_of(client, workers)).item(), []

            def kill(victim=victim, killed_at=killed_at):
                os.kill(victim, signal.SIGKILL)
                killed_at.append(time.perf_counter())

            killer = threading.Timer(float(rng.uniform(0.05, 0.8)) * calm_seconds, kill)
            killer.start()
            seconds, coef = fit_seconds(X, y, passes)
            ended = time.perf_counter()
            killer.join()
            if killed_at[0] >= ended:  # too late: this fit does not count
                late += 1
                continue
            gaps.append(np.abs(coef - calm).max())
            slowest = max(slowest, seconds)
    print(f"  {len(gaps)} of {times} fits finished; largest difference {max(gaps):.1e}; "
          f"slowest {slowest:.1f} s (undisturbed {calm_seconds:.1f} s); "
          f"{late} kills came after the fit and are not counted", flush=True)  # fmt: skip


def hangs(times, n=40_000, d=50, workers=4, passes=15, patience=10):
    """SIGSTOP of one of four workers during a fit: with `timeout`, and with worker-ttl.

    A stopped worker does not answer, but its connections stay open.
    """
    import distributed  # noqa: F401 -- its settings must be there before one of them is changed

    import dask

    print(
        f"\nSIGSTOP of one of {workers} workers during a fit, {times} times each, "
        f"n = {n:,}, d = {d}"
    )
    rng = np.random.default_rng(0)
    for what, ttl, options in (
        (f"timeout={patience}", None, {"timeout": patience}),
        (f"worker-ttl: {patience}s", f"{patience}s", {}),
    ):
        gaps, named, seconds = [], 0, []
        with (
            dask.config.set({"distributed.scheduler.worker-ttl": ttl}),
            local(workers) as client,
        ):
            X, y = collections(n, d, n // 16)
            fit_seconds(X, y, passes)
            _, calm = fit_seconds(X, y, passes)
            while len(gaps) + named < times:
                victim, epoch = rng.choice(pids_of(client, workers)).item(), rng.integers(1, passes)

                def stop(now, victim=victim, epoch=epoch):
                    if now == epoch:
                        os.kill(victim, signal.SIGSTOP)

                start = time.perf_counter()
                try:
                    _, coef = fit_seconds(X, y, passes, stop, **options)
                    gaps.append(np.abs(coef - calm).max())
                except TimeoutError as error:
                    named += "from partition " in str(error)
                seconds.append(time.perf_counter() - start)
                with contextlib.suppress(ProcessLookupError):  # its nanny may have killed it
                    os.kill(victim, signal.SIGKILL)
        print(f"  {what}: {named} fits raised and named partitions, {len(gaps)} finished; largest "
              f"difference {max(gaps, default=0.0):.1e}; slowest {max(seconds):.1f} s",
              flush=True)  # fmt: skip
