"""Losses of one call beside boosted trees at their defaults: quantiles and absolute errors.

    python benchmarks/losses.py [--data DIR] [--only NAME ...]

The tables with numbers of `tables.py`, of at most 3,000 rows. Ours: `TuneFreeRegressor` with this
loss, random_state=0 and else its defaults; the levels 0.1 and 0.9 are one fit with two columns.
Peers: CatBoost, LightGBM and HistGradientBoosting with the same loss and else their defaults, one
fit a level, one thread. "below": the share of test targets below the predicted quantiles. CPU
seconds are those of all threads. Ratios are geometric means over tables of the test loss /
CatBoost's; CPU ratios are medians.
"""

import argparse

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss

import tables
from _peers import timed
from _tables import console, table

LEVELS = (0.1, 0.9)


def ours(levels):
    from tunefree import TuneFreeRegressor

    if levels is None:
        return [TuneFreeRegressor(loss="absolute_error", random_state=0)]
    return [TuneFreeRegressor(loss="quantile", quantile=levels, random_state=0)]


def catboost(levels):
    from catboost import CatBoostRegressor

    names = [f"Quantile:alpha={level}" for level in levels or ()] or ["MAE"]
    quiet = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return [CatBoostRegressor(loss_function=name, **quiet) for name in names]


def lightgbm(levels):
    from lightgbm import LGBMRegressor

    options = [{"objective": "quantile", "alpha": level} for level in levels or ()]
    options = options or [{"objective": "mae"}]
    return [LGBMRegressor(verbose=-1, n_jobs=1, **each) for each in options]


def boosting(levels):
    options = [{"loss": "quantile", "quantile": level} for level in levels or ()]
    options = options or [{"loss": "absolute_error"}]
    return [HistGradientBoostingRegressor(random_state=0, **each) for each in options]


METHODS = {"tunefree": ours, "CatBoost": catboost, "LightGBM": lightgbm, "HistGB": boosting}


def measured(make, levels, data):
    """The test loss, CPU seconds, and the shares of targets below the predictions."""
    models = make(levels)
    fits, seconds = timed(lambda: [m.fit(data.X_train, data.y_train) for m in models])
    predictions = np.column_stack([model.predict(data.X_test) for model in fits])
    below = (data.y_test[:, None] < predictions).mean(axis=0)
    pairs = zip(predictions.T, levels or (0.5,), strict=True)
    losses = [mean_pinball_loss(data.y_test, p, alpha=level) for p, level in pairs]
    return {"loss": float(np.mean(losses)), "cpu": seconds, "below": below}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    names = [name for half in tables.HALVES.values() for name in half]
    found = {}
    tables.warm_up()
    for name in names if options.only is None else options.only:
        data = tables.load(name, options.data)
        if data.task != "Regressor":
            continue
        for levels in (LEVELS, None):
            rows = {method: measured(make, levels, data) for method, make in METHODS.items()}
            found[name, levels] = rows
        console.print(f"[dim]{name}[/dim]")
    for title, levels in (("Levels 0.1 and 0.9", LEVELS), ("Absolute error", None)):
        show(title, {name: rows for (name, each), rows in found.items() if each == levels})


def show(title, found):
    """Test losses of every table, then ratios to CatBoost."""
    lines = [
        [name, *(f"{rows[method]['loss']:.4g}" for method in METHODS)]
        for name, rows in found.items()
    ]
    table(f"{title}: test loss", ["data", *METHODS], lines)
    lines = []
    for method in METHODS:
        each = [(rows[method], rows["CatBoost"]) for rows in found.values()]
        ratio = np.exp(np.mean([np.log(a["loss"] / b["loss"]) for a, b in each]))
        shares = np.mean([a["below"] for a, _ in each], axis=0)
        cpu = np.median([a["cpu"] / b["cpu"] for a, b in each])
        below = " ".join(f"{share:.3f}" for share in shares)
        lines.append([method, f"{ratio:.3f}", f"{cpu:.2f}", below])
    table(f"{title}: ratios to CatBoost", ["method", "loss", "CPU", "below"], lines)


if __name__ == "__main__":
    main()
