"""Budgets: whether a fit ends in time and within its memory, and the cost of less time.

python benchmarks/budget.py --data DIR [--only NAME ...]

Every table is learned (at most 16,000 rows; 4,000 tested) by `TuneFree*` without a budget, then
with 1/2, 1/4, ... of that wall time, down to a second, and with an eighth of its memory (80 MB at
least).
Planned: the estimate in `plan_` for this machine, in seconds and MB, without the data. Wall: from
the call on; if it exceeds the CPU seconds, the machine was busy. Peak: memory allocated by NumPy,
without the data, in a second fit (tracemalloc) without a time limit. Loss: share of errors, or
squared error over the variance of the targets, on test rows. Limits: landmarks of Lk and Gk
(Laplace and Gaussian kernel), rows of kP (kernel PiSTOL); - is skipped.
"""

import argparse
import contextlib
import time
import tracemalloc
from pathlib import Path

import numpy as np

import tables
from _tables import console, table
from tunefree.stack.costs import machine_speed

NAMES = ("magic04", "kin40k", "letter", "spam", "satellite")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--only", nargs="*", default=NAMES)
    options = parser.parse_args()
    tables.warm_up()
    tables.MOST_LEARNED, rows, over = 16_000, [], []
    with contextlib.suppress(KeyboardInterrupt):
        for name in options.only:
            console.print(f"[dim]{name}[/dim]")
            data = tables.load(name, options.data)
            full = row(data, None, None)
            rows.append((name, *full))
            budget = float(full[3]) / 2
            while budget > 1.0:
                rows.append(("", *row(data, budget, None)))
                over.append(float(rows[-1][4]) / budget)
                budget /= 2
            rows.append(("", *row(data, None, f"{max(float(full[4]) / 8, 80):.0f}MB")))
    table(
        "Budgets",
        ("table", "shape", "allowed", "planned s", "wall s", "CPU s", "planned MB", "peak MB",
         "loss", "limits"),
        rows,
    )  # fmt: skip
    console.print(
        f"Wall over budget: {np.mean(over):.2f} on average, {max(over):.2f} at most, above 1.2 in "
        f"{sum(np.array(over) > 1.2)} of {len(over)}."
    )


def row(data, budget, memory):
    import tunefree

    given = None if budget is None else f"{budget:.3f}s"
    make = getattr(tunefree, f"TuneFree{data.task}")
    speed = machine_speed()
    start, busy = time.perf_counter(), time.process_time()
    model = make(budget=given, max_memory=memory, random_state=0).fit(data.X_train, data.y_train)
    wall, busy = time.perf_counter() - start, time.process_time() - busy
    peak = ""
    if budget is None:
        tracemalloc.start()
        make(budget=model.plan_, random_state=0).fit(data.X_train, data.y_train)
        peak = f"{tracemalloc.get_traced_memory()[1] / 1e6:.0f}"
        tracemalloc.stop()
    predicted = model.predict(data.X_test)
    loss = np.mean(predicted != data.y_test)
    if data.task == "Regressor":
        loss = np.mean(np.square(predicted - data.y_test)) / np.var(data.y_test)
    seconds, size = model.plan_.expected
    seconds *= model.plan_.speed / speed
    gone = [
        f"{'-' if s.reason else s.limit} {''.join(word[0] for word in s.candidate.split())}"
        for s in model.plan_.steps if s.limit or s.reason
    ]  # fmt: skip
    allowed = memory or (f"{budget:.1f} s" if budget else "")
    return (
        "{}x{}".format(*data.X_train.shape), allowed, f"{seconds:.1f}", f"{wall:.1f}",
        f"{busy:.1f}", f"{size / 1e6:.0f}", peak, f"{loss:.4f}", ", ".join(gone),
    )  # fmt: skip


if __name__ == "__main__":
    main()
