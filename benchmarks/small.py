"""Few rows: one call without tuning, against cross-validated linear and kernel machines.

python benchmarks/small.py [--data DIR] [--draws N] [--only NAME ...] [--explain] [--one-row]

Ours: `TuneFreeClassifier` and `TuneFreeRegressor` with defaults and random_state=0. Peers: those of
the league (`_league_peers.py`). Every draw has 150 or 500 training rows of a public set and at
most 3,000 of its test rows; of the small sets in scikit-learn three fifths for training, and the
rest for testing. Losses are means over draws: errors, or squared errors over the variance of the
targets, in per cent. The lines below are geometric means over sets of ratios of losses, with one
mistake added to each error, and medians of ratios of CPU seconds. The last table is a profile of
one fit.

--explain: CPU seconds of `explain` for 1,000 rows of 20 columns, at 5,000 training rows. "gap" is
how far the values of a row are from adding up to its score, at most; "error" is the mean standard
error of sampled values, in units of the mean absolute value.

``--one-row`` prints only how long `predict` of one row takes, fitted to breast_cancer (classifiers)
or diabetes (regressors) as an array or a frame: the lower decile of 1,000 calls, and its ratio to
that of scikit-learn's LogisticRegression, which is timed just before.
"""

import argparse
import cProfile
import pstats
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

import _data
import _league_peers
import tunefree
from _peers import timed
from _tables import console, table
from league import loss, model, warm_up
from tunefree import TuneFreeRegressor

SIZES = 150, 500
MOST_TESTED = 3000
EXCLUDED = "newsgroups", "mnist", "mushrooms"  # thousands of columns, or no errors
BUNDLED = {"iris": "multiclass", "wine": "multiclass", "breast_cancer": "binary",
           "digits": "multiclass", "diabetes": "regression"}  # fmt: skip
ONE_BY_ONE = "TuneFree", "BoostedTrees", "KernelRidge", "KernelPiSTOL", "PiSTOL", "GLM"
PROFILED = "magic04", "letter", "satellite", "protein", "pumadyn32nm"
# Functions of the library that do not call each other.
PHASES = {"columns": ("coordinates", "show"), "search": ("search",), "solution": ("exact", "_many"),
          "effects": ("moves",), "joining": ("stack_classes", "stack_targets"),
          "calibration": ("calibrated",)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the public data sets")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--one-row", action="store_true", help="time predictions of one row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # classes of fewer rows than folds
    if options.one_row:
        return one_row()
    if options.explain:
        return explain()
    warm_up()
    found = {}
    for name, size, draws in samples(options):
        console.print(f"[dim]{name}, {size} rows[/dim]")
        found[name, size] = [measured(data) for data in draws]
    for task in ("classification", "regression"):
        part = {k: rows for k, rows in found.items()
                if ("RidgeCV" in rows[0]) == (task == "regression")}  # fmt: skip
        if part:
            show(task, part)
    if options.data:
        lines = [phases(name, size, options) for name in PROFILED for size in (*SIZES, 2000)]
        table("Where the time goes, milliseconds", ["data", "rows", *PHASES, "rest", "all"], lines)


def explain():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + np.round(X[:, 4])
    y += rng.normal(size=5000)
    lines = []
    for kind in ("linear", "trees", "kernel"):
        model = TuneFreeRegressor(candidates=(kind,), random_state=0).fit(X, y)
        model.explain(X[:2])  # compiles
        found, seconds = timed(lambda model=model: model.explain(X[:1000]))
        gap = np.abs(found.base_value + found.values.sum(axis=1) - found.score).max()
        sampled = found.std_error is not None
        error = found.std_error.mean() / np.abs(found.values).mean() if sampled else 0.0
        names = ", ".join(model.chosen_)
        lines.append([names, f"{seconds:.2f}", f"{gap:.0e}", f"{error:.0%}"])
    table("Explanations", ["stack", "CPU s", "gap", "error"], lines)


def one_row():
    """Print the time of a prediction of one row, and its ratio to LogisticRegression's."""
    sets = {
        frame: {
            "Classifier": datasets.load_breast_cancer(return_X_y=True, as_frame=frame),
            "Regressor": datasets.load_diabetes(return_X_y=True, as_frame=frame, scaled=False),
        }
        for frame in (False, True)
    }
    rows = [timed_row(name, kind, sets) for name in ONE_BY_ONE for kind in sets[False]]
    columns = ["", "array, us", "ratio", "frame, us", "ratio"]
    table("One row: microseconds, and ratios to LogisticRegression", columns, rows)


def timed_row(name, kind, sets):
    cells = []
    for data in sets.values():
        X, y = data["Classifier"]
        peer = LogisticRegression(max_iter=10_000).fit(X, y)
        reference = lower_decile(peer.predict, X[:1])
        X, y = data[kind]
        model = getattr(tunefree, f"{name}{kind}")(random_state=0).fit(X, y)
        found = lower_decile(model.predict, X[:1])
        cells += [f"{1e6 * found:.0f}", f"{found / reference:.2f}"]
    return [name + kind, *cells]


def lower_decile(predict, row):
    """Seconds of one call in the fastest tenth of 1,000."""
    seconds = []
    for _ in range(1000):
        start = time.perf_counter()
        predict(row)
        seconds.append(time.perf_counter() - start)
    return np.quantile(seconds, 0.1)


def phases(name, size, options):
    """Milliseconds of the phases of one fit."""
    data, profile = drawn(_data.load(name, Path(options.data)), size, 0), cProfile.Profile()
    profile.runcall(model(data).fit, data.X_train, data.y_train)
    stats: dict = vars(pstats.Stats(profile))["stats"]
    spent = [sum(row[3] for (file, _, what), row in stats.items()
                 if "tunefree" in file and what in functions)
             for functions in PHASES.values()]  # fmt: skip
    total = sum(row[2] for row in stats.values())
    each = [*spent, total - sum(spent), total]
    return [name, size, *(f"{1000 * seconds:.0f}" for seconds in each)]


def samples(options):
    """Yield (name, size, draws)."""
    wanted = options.only or [*_data.names("binary", "multiclass", "regression"), *BUNDLED]
    for name in wanted:
        if name in BUNDLED:
            X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
            whole = _data.Data(name, BUNDLED[name], X, y, X, y)
            yield name, 3 * len(y) // 5, [parted(whole, d) for d in range(options.draws)]
        elif options.data and name not in EXCLUDED:
            whole = _data.load(name, Path(options.data))
            for size in SIZES:
                yield name, size, [drawn(whole, size, d) for d in range(options.draws)]


def parted(whole, seed):
    order = np.random.default_rng(seed).permutation(len(whole.y_train))
    cut = 3 * len(order) // 5
    return chosen(whole, order[:cut], order[cut:])


def drawn(whole, size, seed):
    rng = np.random.default_rng(seed)
    train = rng.permutation(len(whole.y_train))[:size]
    return chosen(whole, train, rng.permutation(len(whole.y_test))[:MOST_TESTED])


def chosen(whole, train, test):
    return whole._replace(X_train=whole.X_train[train], y_train=whole.y_train[train],
                          X_test=whole.X_test[test], y_test=whole.y_test[test])  # fmt: skip


def measured(data):
    """Every method's loss and CPU seconds on one draw."""
    regression = data.task == "regression"
    fitted, cpu = timed(lambda: model(data).fit(data.X_train, data.y_train), repeats=1)
    wrong = fitted.predict(data.X_test)
    wrong = (wrong - data.y_test) ** 2 if regression else wrong != data.y_test
    rows = {"tunefree": {"loss": float(wrong.mean()), "cpu": cpu}}
    peers = _league_peers.regression if regression else _league_peers.classification
    rows |= dict(peers(data))
    scale = data.y_test.var() if regression else 1.0
    return {name: (loss(row) / scale, row["cpu"], 1.0 / len(wrong)) for name, row in rows.items()}


def show(task, part):
    methods = list(next(iter(part.values()))[0])
    means = {k: {m: np.mean([row[m] for row in rows], axis=0) for m in methods}
             for k, rows in part.items()}  # fmt: skip
    unit = "error %" if task == "classification" else "squared error, % of the variance"
    lines = [
        [name, size, *(f"{100 * mean[m][0]:.2f}" for m in methods),
         f"{mean['tunefree'][1]:.2f}", f"{sum(mean[m][1] for m in methods[1:]):.2f}"]
        for (name, size), mean in means.items()
    ]  # fmt: skip
    title = f"Few rows: {task}, {unit}, mean of {len(next(iter(part.values())))} draws"
    table(title, ["data", "rows", *methods, "CPU s", "peers' CPU s"], lines)
    for peer in methods[1:]:
        ratios = [(m["tunefree"][0] + m["tunefree"][2]) / (m[peer][0] + m[peer][2])
                  if task == "classification" else m["tunefree"][0] / m[peer][0]
                  for m in means.values()]  # fmt: skip
        seconds = {k: m[peer][1] / m["tunefree"][1] for k, m in means.items()}
        large = [ratio for (_, size), ratio in seconds.items() if size >= 500]
        console.print(
            f"ours / {peer}: loss {np.exp(np.mean(np.log(ratios))):.3f}, peer's seconds / ours "
            f"{np.median(list(seconds.values())):.2f}"
            + (f", from 500 rows on {np.median(large):.2f}" if large else "")
        )
    console.print()


if __name__ == "__main__":
    main()
