"""Budgets: whether fits end in time and use it, and what less time costs.

python benchmarks/budget.py [--rows N ...] [--seconds S ...] [--wall]

Made tables of 20 columns (Friedman's first function, with noise 1; two classes of a smooth score
with an interaction) are learned by `TuneFree*` with each budget of clock time, and tested on 20,000
rows. Used: time of the call over the budget. Loss: squared error over the variance of the targets,
or log-loss, with its standard error. Worse: by how many standard errors of the difference the loss
is above that with the budget before; the fits of the same table are compared row by row. Cut: what
was limited or skipped.

The clock is that of the process (CPU seconds, one thread), so that other processes do not matter;
with --wall it is the clock on the wall, with all threads.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import make_friedman1

import tunefree
from _tables import console, table
from tunefree.core import clock

_TESTED = 20_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[1000, 10_000, 100_000, 300_000])
    parser.add_argument("--seconds", type=int, nargs="*", default=[2, 10, 60])
    parser.add_argument("--only", nargs="*", choices=("numbers", "classes"))
    parser.add_argument("--wall", action="store_true")
    options = parser.parse_args()
    if not options.wall:
        clock.now = time.process_time
    n_jobs = None if options.wall else 1
    for kind in options.only or ("numbers", "classes"):
        for n in (1000, 12_000):  # kernels are compiled
            fitted(kind, n, None, n_jobs)
    rows, used = [], []
    for kind in options.only or ("numbers", "classes"):
        for n in options.rows:
            before = None
            for seconds in options.seconds:
                model, share = fitted(kind, n, seconds, n_jobs)
                losses = losses_of(model, kind, n)
                worse = "" if before is None else f"{difference(losses, before):.1f}"
                rows.append(
                    (
                        kind,
                        f"{n:,}",
                        f"{seconds}",
                        f"{share:.2f}",
                        f"{losses.mean():.4f}",
                        worse,
                        cut_of(model.plan_),
                    )
                )
                console.print("[dim]" + "  ".join(rows[-1]) + "[/dim]")
                used.append(share)
                before = losses
    table("Budgets", ("targets", "rows", "budget s", "used", "loss", "worse", "cut"), rows)
    middle = np.median(used)
    console.print(f"Used: {max(used):.2f} of the budget at most, {middle:.2f} in the median.")


def data(kind, n):
    """Rows to learn and to test."""
    if kind == "numbers":
        X, y = make_friedman1(n + _TESTED, 20, noise=1.0, random_state=0)
        return X[_TESTED:], y[_TESTED:], X[:_TESTED], y[:_TESTED]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + _TESTED, 20))
    score = X[:, :5].sum(axis=1) + 2.0 * X[:, 0] * np.abs(X[:, 1])
    y = score + rng.logistic(size=len(X)) > 0.0
    return X[_TESTED:], y[_TESTED:], X[:_TESTED], y[:_TESTED]


def fitted(kind, n, seconds, n_jobs):
    """A fit, and the share of its budget that the call took."""
    X, y, _, _ = data(kind, n)
    name = "TuneFreeRegressor" if kind == "numbers" else "TuneFreeClassifier"
    budget = None if seconds is None else f"{seconds}s"
    whole = clock.Clock()
    model = getattr(tunefree, name)(budget=budget, random_state=0, n_jobs=n_jobs).fit(X, y)
    return model, whole.spent() / (seconds or 1)


def losses_of(model, kind, n):
    """The losses of the rows that are tested."""
    _, _, Z, t = data(kind, n)
    if kind == "numbers":
        return np.square(model.predict(Z) - t) / np.var(t)
    return -np.log(model.predict_proba(Z)[np.arange(len(t)), t.astype(int)])


def difference(losses, before):
    """The mean difference in its standard errors; 0 if there is none."""
    gaps = losses - before
    error = gaps.std() / np.sqrt(len(gaps))
    return gaps.mean() / error if error else 0.0


def cut_of(plan):
    """What a plan has limited or skipped."""
    found = [] if plan.rows is None else [f"{plan.rows:,} rows"]
    for step in plan.steps:
        if step.limit or step.reason:
            short = "".join(word[0] for word in step.candidate.split())
            found.append(f"{short} {'-' if step.reason else step.limit}")
    return ", ".join(found)


if __name__ == "__main__":
    main()
