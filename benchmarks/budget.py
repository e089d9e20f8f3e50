"""Budgets: whether fits end in time and use it, and what less time costs.

python benchmarks/budget.py [--data DIR] [--tables NAME ...] [--rows N ...]
    [--seconds S ...] [--wall]

Tables are learned by `TuneFree*` with each budget of clock time, and tested on other rows. Made
ones have 20 columns and as many rows as --rows names: `numbers` (Friedman's first function, noise
1) and `classes` (two, of a smooth score with an interaction), tested on 20,000 rows. The others
are in DIR: see `_data.py`; `text` is the Adult table with its columns of text.

Used: time of the call over the budget. All: whether every candidate was evaluated to its end. More
helps where the next budget lowers the loss by more than one standard error. Loss: squared error
over the variance of the targets, or log-loss. Worse: by how many standard errors of the difference
the loss is above that with the budget before; the fits of the same table are compared row by row.
Cut: what was limited or skipped.

The clock is that of the process (CPU seconds, one thread), so that other processes do not matter;
with --wall it is the clock on the wall, with all threads.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

import tunefree
from _data import load
from _tables import console, table
from tunefree.core import clock

_TESTED = 20_000
MADE = ("numbers", "classes")
REAL = ("protein", "kin40k", "a9a", "letter", "text", "newsgroups", "mnist")
COLUMNS = ("table", "rows", "budget s", "used", "all", "loss", "worse", "cut")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="*", choices=MADE + REAL, default=MADE)
    sizes = [1000, 10_000, 100_000, 150_000, 300_000]
    parser.add_argument("--rows", type=int, nargs="*", default=sizes)
    parser.add_argument("--seconds", type=int, nargs="*", default=[2, 5, 15, 30, 60])
    parser.add_argument("--wall", action="store_true")
    options = parser.parse_args()
    if not options.wall:
        clock.now = time.process_time
    warnings.simplefilter("ignore")
    n_jobs = None if options.wall else 1
    for kind in MADE:
        for n in (1000, 12_000):  # kernels are compiled
            fitted(made(kind, n), None, n_jobs)
    rows, used, helped, worse = [], [], [], []
    for name in options.tables:
        for n in options.rows if name in MADE else [None]:
            data = made(name, n) if name in MADE else real(name, options.data)
            before = None
            for seconds in options.seconds:
                model, share = fitted(data, seconds, n_jobs)
                losses = losses_of(model, data)
                gap = None if before is None else difference(losses, before)
                is_all = not cut_of(model.plan_)
                rows.append(
                    (
                        name,
                        f"{data[0].shape[0]:,}",
                        f"{seconds}",
                        f"{share:.2f}",
                        "yes" if is_all else "no",
                        f"{losses.mean():.4f}",
                        "" if gap is None else f"{gap:.1f}",
                        ", ".join(cut_of(model.plan_)),
                    )
                )
                console.print("[dim]" + "  ".join(rows[-1]) + "[/dim]")
                used.append(share)
                worse.append(-np.inf if gap is None else gap)
                if gap is not None and gap < -1.0:
                    helped.append(used[-2])
                before = losses
    table("Budgets", COLUMNS, rows)
    console.print(f"Used: {max(used):.2f} of the budget at most;")
    if helped:
        console.print(f"where more helps {min(helped):.2f} at least.")
    console.print(
        f"Worse than with the budget before: {np.max(worse):.1f} standard errors at most."
    )


def made(kind, n):
    """Rows to learn and to test."""
    if kind == "numbers":
        X, y = make_friedman1(n + _TESTED, 20, noise=1.0, random_state=0)
        return X[_TESTED:], y[_TESTED:], X[:_TESTED], y[:_TESTED]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + _TESTED, 20))
    score = X[:, :5].sum(axis=1) + 2.0 * X[:, 0] * np.abs(X[:, 1])
    y = score + rng.logistic(size=len(X)) > 0.0
    return X[_TESTED:], y[_TESTED:], X[:_TESTED], y[:_TESTED]


def real(name, folder):
    """Rows to learn and to test of a table in a folder."""
    if name != "text":
        return load(name, folder)[2:6]
    import pandas as pd

    X = pd.read_csv(folder / "field" / "adult_train.csv.gz", skipinitialspace=True)
    y = X.pop(X.columns[-1]).to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[: len(y) // 4], order[len(y) // 4 :]
    return X.iloc[train], y[train], X.iloc[test], y[test]


def fitted(data, seconds, n_jobs):
    """A fit, and the share of its budget that the call took."""
    X, y, *_ = data
    make = tunefree.TuneFreeRegressor if is_number(y) else tunefree.TuneFreeClassifier
    budget = None if seconds is None else f"{seconds}s"
    whole = clock.Clock()
    model = make(budget=budget, random_state=0, n_jobs=n_jobs).fit(X, y)
    return model, whole.spent() / (seconds or 1)


def is_number(y):
    """Whether targets are numbers, not classes."""
    return y.dtype.kind == "f" and len(np.unique(y)) > 30


def losses_of(model, data):
    """The losses of the rows that are tested."""
    _, _, Z, t = data
    if is_number(t):
        return np.square(model.predict(Z) - t) / np.var(t)
    p = model.predict_proba(Z)[np.arange(len(t)), np.searchsorted(model.classes_, t)]
    return -np.log(np.maximum(p, 1e-12))


def difference(losses, before):
    """The mean difference in its standard errors; 0 if there is none."""
    gaps = losses - before
    error = gaps.std() / np.sqrt(len(gaps))
    return gaps.mean() / error if error else 0.0


def cut_of(plan):
    """What a plan has limited or skipped for want of time."""
    found = [f"{n:,} rows" for n in (plan.read, plan.rows) if n is not None]
    for step in plan.steps:
        if step.limit or "budget" in step.reason:
            short = "".join(word[0] for word in step.candidate.split())
            found.append(f"{short} {'-' if step.reason else step.limit}")
    return found


if __name__ == "__main__":
    main()
