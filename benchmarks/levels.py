"""Columns of many levels: shops, zip codes, players. Each level has an effect of its own.

python benchmarks/levels.py

Targets are made: the effect of the level (variance 1), a product of two other columns, and noise of
variance .09; a quarter of the rows is tested. The last lines are of a real table, players of
baseball, whose level is the player. CatBoost takes the column as a category; all are at their
defaults, on one thread. The share is that of the variance of the test targets, CPU seconds are
those of the fit.
"""

import os
import time

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np
import pandas as pd
from catboost import CatBoostRegressor

import _frames
import tunefree
from _tables import table

# Levels and rows.
SHAPES = (100, 4000), (400, 4000), (1000, 4000), (1000, 12000), (4000, 12000)
OURS = tunefree.TuneFreeRegressor, tunefree.BoostedTreesRegressor


def main():
    rng, lines = np.random.default_rng(0), []
    for model in OURS:  # compiled, or loaded from the cache
        model(random_state=0).fit(*made(rng, 50, 300))
    for n_levels, n_rows in SHAPES:
        X, y = made(rng, n_levels, n_rows)
        lines.append([f"made, {n_levels} levels", *compared(X, y)])
    frame = _frames.load(_frames.in_list("open")["plyr/baseball"])
    y = np.asarray(frame.y, dtype=float)
    order = rng.permutation(len(y))
    lines.append(["plyr/baseball, 1007 players", *compared(frame.X.iloc[order], y[order])])
    names = ("TuneFree", "BoostedTrees", "CatBoost")
    columns = ["table", "rows", *names, *(f"{name} CPU s" for name in names)]
    table("Share of the variance that is explained in new rows", columns, lines)


def made(rng, n_levels, n_rows):
    level, x = rng.integers(0, n_levels, n_rows), rng.normal(size=(n_rows, 2))
    effect = rng.normal(size=n_levels)
    y = effect[level] + x[:, 0] * (x[:, 1] > 0) + 0.3 * rng.normal(size=n_rows)
    return pd.DataFrame({"level": [f"u{k}" for k in level], "a": x[:, 0], "b": x[:, 1]}), y


def compared(X, y):
    """Rows, the shares of the variance of ours and of CatBoost's, and their CPU seconds."""
    n, shares, seconds = len(y) * 3 // 4, [], []
    texts = [c for c in X if X[c].dtype.kind not in "biuf"]
    peer = CatBoostRegressor(verbose=0, thread_count=1, cat_features=texts, random_seed=0)
    filled = X.assign(**{c: X[c].astype(str) for c in texts})
    pairs = [(model(random_state=0), X) for model in OURS] + [(peer, filled)]
    for model, rows in pairs:
        start = time.process_time()
        model.fit(rows[:n], y[:n])
        seconds.append(f"{time.process_time() - start:.1f}")
        error = np.mean((np.ravel(model.predict(rows[n:])) - y[n:]) ** 2)
        shares.append(f"{1.0 - error / y[n:].var():.3f}")
    return [len(y), *shares, *seconds]


if __name__ == "__main__":
    main()
