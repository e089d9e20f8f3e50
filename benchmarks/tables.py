"""Tables: one call against boosted trees, forests and kernel machines, and the value of each step.

python benchmarks/tables.py --data DIR [--large] [--only NAME ...] [--peers NAME ...]
                            [--without STEP ...] [--cache FILE]

DIR has `tables/*.npz` and the public sets of `_data.py`, of which at most 3,000 rows are learned
and 4,000 tested. One half of the tables was used to make the rules ("choose"), the other only to
check them ("validate"). Ours: `TuneFreeClassifier` and `TuneFreeRegressor` with defaults and
random_state=0, on the numbers of the file; peers: `_tables_peers.py`, on the same, one thread. CPU
seconds are those of all threads, with all tuning. Ratios are geometric means over tables of loss /
loss of CatBoost, with half a mistake added to both, so that zeros are possible. SE: of the mean
difference of losses over rows. Worst: the largest ratio on a table with at least 100 mistakes.

``--large`` takes the public sets as large as they come.

``--without STEP`` (or all) switches off one of our steps; ``--cache FILE`` keeps the rows of the
peers between runs, and the last line mentions it. An interrupted run shows the finished tables.
"""

import argparse
import contextlib
import importlib
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.stats import rankdata

import _data
from _tables import console, table
from _tables_peers import PEERS, Peers, measured

HALVES = {
    "choose": (
        "Hill_Valley_with_noise", "dermatology", "haberman", "krkopt", "magic04", "parity5+5",
        "profb", "satellite", "segmentation", "spam", "tic_tac_toe", "wdbc", "344_mv", "503_wind",
        "666_rmftsa_ladata", "california", "kin40k", "protein",
    ),
    "validate": (
        "fars", "heart_c", "monk2", "pima", "saheart", "schizo", "sleep", "spectf", "vehicle",
        "waveform_40", "xd6", "564_fried", "bike", "elevators", "pol", "pumadyn32nm",
        "4544_GeographicalOriginalofMusic",
    ),
}  # fmt: skip
# The sets of `--large`, all rows.
LARGE = (
    "satellite", "spam", "usps", "pumadyn32nm", "pol", "elevators", "bike", "magic04", "california",
    "letter", "kin40k", "protein", "a9a", "w8a",
)  # fmt: skip
MOST_LEARNED, MOST_TESTED = 3000, 4000
OURS, OFF, REFERENCE = "tunefree", "without", "CatBoost"
# The worst table is one with at least so many mistakes.
MANY = 100


def main():
    options = arguments()
    peers, results = Peers(options.peers, options.cache), {}
    warm_up()
    parts = {"large": LARGE} if options.large else HALVES
    with contextlib.suppress(KeyboardInterrupt):
        for half, names in parts.items():
            for name in names:
                if not options.only or name in options.only:
                    console.print(f"[dim]{name}[/dim]")
                    data = load(name, options.data, options.large)
                    rows = {**everyone(data, peers), **dict(without(data, options.without))}
                    shape = "{} x {}".format(*data.X_train.shape)
                    results[name] = {"half": half, "task": data.task, "shape": shape, "rows": rows}
    for half in parts:
        part = {name: found for name, found in results.items() if found["half"] == half}
        if part:
            show(half, part)
            steps(half, part)
    console.print(__doc__.split("\n\n")[2].replace("\n", " "))
    if peers.kept:
        console.print(f"Peers measured in an earlier run: {', '.join(sorted(peers.kept))}.")


def warm_up():
    """Compile the kernels of the tables, or load them from the cache."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    z = X[:, 0] * X[:, 1]
    for y in (z > 0, np.digitize(z, [-1, 1]), z):
        ours(_data.Data("", "Regressor" if y is z else "Classifier", X, y, X, y))


def load(name, folder, whole_set=False):
    """A table; its task is the ending of the names of its estimators."""
    file = Path(folder) / "tables" / f"{name}.npz"
    if file.exists() and not whole_set:
        parts = np.load(file)
        task, rows = str(parts["task"]), [parts[key] for key in ("X", "y", "Z", "t")]
    else:
        whole = _data.load(name, folder)
        rng, order = np.random.default_rng(0), [slice(None)] * 2
        if whole.note != _data.SEED:  # rows in the order of the file
            order = [rng.permutation(len(y)) for y in (whole.y_train, whole.y_test)]
        train, test = order
        rows = [whole.X_train[train], whole.y_train[train], whole.X_test[test], whole.y_test[test]]
        task, cuts = whole.task, (MOST_LEARNED, MOST_LEARNED, MOST_TESTED, MOST_TESTED)
        if not whole_set:
            rows = [part[:most] for part, most in zip(rows, cuts, strict=True)]
    return _data.Data(name, "Regressor" if task == "regression" else "Classifier", *rows)


def everyone(data, peers):
    return {OURS: ours(data), **dict(peers(data))}


def without(data, chosen):
    """Yield ours with a step switched off."""
    for step in chosen:
        with STEPS[step]():
            yield f"{OFF} {step}", ours(data)


def ours(data):
    import tunefree

    return measured(lambda: getattr(tunefree, f"TuneFree{data.task}")(random_state=0), data)


def against(row, reference):
    """Loss over loss, log-loss over log-loss (or NaN), and the difference in standard errors."""
    a, b = (np.asarray(r["losses"]) for r in (row, reference))
    half = 0.5 if "log_loss" in reference else 0.0
    ratio = (a.sum() + half) / (b.sum() + half)
    logs = row.get("log_loss", np.nan) / reference.get("log_loss", np.nan)
    least = np.sqrt(1e-3) if half else 1e-300
    return ratio, logs, (a - b).mean() * np.sqrt(len(a)) / max((a - b).std(), least)


def show(half, part):
    """Every table of a half, and every method over its tables."""
    methods = list(dict.fromkeys(n for f in part.values() for n in f["rows"] if OFF not in n))
    lines, compared = [], REFERENCE in methods
    for name, found in part.items():
        rows = found["rows"]
        cells = [f"{scaled(rows[m], found['task']):.4g}" if m in rows else "-" for m in methods]
        if compared:
            _, logs, z = against(rows[OURS], rows[REFERENCE])
            cells += [f"{logs:.2f}" if logs == logs else "-", f"{z:+.1f}"]
        lines.append([name[:22], found["shape"], *cells])
    more = ["log-loss ratio", "difference / SE"] if compared else []
    title = f"{half}: test error in per cent, or squared error; ours against {REFERENCE}"
    table(title, ["data", "rows x columns", *methods, *more], lines)
    if compared:
        columns = ["method", "error", "log-loss", "MSE", "mean rank", "within 1.5 SE", "worst",
                   "CPU s", "CPU ratio", "us a row"]  # fmt: skip
        title = f"{half}: ratios to {REFERENCE}, CPU seconds and microseconds (medians)"
        table(title, columns, [summary(m, part, ranks(part)) for m in methods])


def scaled(row, task):
    return row["loss"] * (100.0 if task == "Classifier" else 1.0)


def ranks(part):
    """Mean ranks of ours and the peers by error or squared error; equal losses share ranks."""
    places = {}
    for found in part.values():
        names = [name for name in found["rows"] if not name.startswith(OFF)]
        losses = [found["rows"][name]["loss"] for name in names]
        for name, rank in zip(names, rankdata(losses), strict=True):
            places.setdefault(name, []).append(rank)
    return {name: np.mean(values) for name, values in places.items()}


def summary(method, part, ranks):
    """One line: a method over the tables of a half."""
    pairs = [(found["task"], found["rows"][method], found["rows"][REFERENCE])
             for found in part.values() if method in found["rows"]]  # fmt: skip
    ratios = [against(row, reference) for _, row, reference in pairs]
    errors = [t[0] for t, (task, *_) in zip(ratios, pairs, strict=True) if task == "Classifier"]
    squares = [t[0] for t, (task, *_) in zip(ratios, pairs, strict=True) if task == "Regressor"]
    large = [t[0] for t, (task, row, _) in zip(ratios, pairs, strict=True)
             if task == "Classifier" and sum(row["losses"]) >= MANY]  # fmt: skip
    return [
        method, geometric(errors), geometric([t[1] for t in ratios if t[1] == t[1]]),
        geometric(squares), f"{ranks[method]:.2f}" if method in ranks else "-",
        f"{np.mean([t[2] <= 1.5 for t in ratios]):.0%}", f"{max(large):.2f}" if large else "-",
        f"{np.median([row['cpu'] for _, row, _ in pairs]):.2f}",
        f"{np.median([row['cpu'] / reference['cpu'] for _, row, reference in pairs]):.2f}",
        f"{np.median([row['predict'] for _, row, _ in pairs]):.1f}",
    ]  # fmt: skip


def geometric(ratios, error=False):
    """Geometric mean as text, with its standard error on request."""
    if not len(ratios):
        return "-"
    logs = np.log(ratios)
    mean = np.exp(logs.mean())
    spread = f" ± {mean * logs.std(ddof=1) / np.sqrt(len(logs)):.3f}" if error else ""
    return f"{mean:.3f}{spread}"


def steps(half, part):
    """The value of each step: losses without it over those with it."""
    names = dict.fromkeys(n for f in part.values() for n in f["rows"] if n.startswith(OFF))
    lines = []
    for name in names:
        compared = [(f["task"], *against(f["rows"][name], f["rows"][OURS])) for f in part.values()]
        classes = [t for t in compared if t[0] == "Classifier"]
        cpu = [f["rows"][name]["cpu"] / f["rows"][OURS]["cpu"] for f in part.values()]
        squares = [t[1] for t in compared if t[0] == "Regressor"]
        ratios = [t[1] for t in classes], [t[2] for t in classes], squares
        counts = (sum(t[3] > 1.5 for t in compared), sum(t[3] < -1.5 for t in compared))
        lines.append([name, *(geometric(r, len(r) > 1) for r in ratios), *counts,
                      f"{np.median(cpu):.2f}"])  # fmt: skip
    if lines:
        columns = ["", "error", "log-loss", "MSE", "worse by 1.5 SE", "better", "CPU"]
        title = f"{half}: losses without a step over losses with it, geometric means and their SE"
        table(title, columns, lines)


@contextlib.contextmanager
def constants(*changes):
    """Change module constants: (module of tunefree, name, value)."""
    with contextlib.ExitStack() as stack:
        for module, name, value in changes:
            found = importlib.import_module(f"tunefree.{module}")
            stack.enter_context(patch.object(found, name, value))
        yield


def without_kernel(name):
    """The stack without one of the candidates on the view."""
    from tunefree.stack.candidates import KERNELS

    rest = {kernel: label for kernel, label in KERNELS.items() if kernel != name}
    return constants(("estimators.candidates", "KERNELS", rest))


def best_alone():
    """The candidate of lowest held-out loss, with its best slope and offsets, without a stack."""
    from tunefree.held_out.stacking import Stack

    def best(fit, scores, weights):
        alone = [fit([F]) for F in scores]
        i = int(np.argmin([weights @ single[-1] for single in alone]))
        a, offsets, _, losses = alone[i]
        one = np.eye(len(scores))[i]
        return Stack(a[0] * one, offsets, one, losses)

    return constants(("select.stacking", "_pruned", best))


def additive_off():
    """A product kernel and a constant: the slope of the additive (for p = 2 linear) term is 0."""
    from tunefree.kernels.evidence import _BOUNDS

    none = {**_BOUNDS, "slope": (-30.0, -29.9)}
    return constants(("learners.kernel.geometry", "_BOUNDS", none))


# The steps of `--without`.
STEPS = {
    "trees": lambda: constants(("estimators.candidates", "_TREE_ROWS", np.inf)),
    "ranks": lambda: constants(("columns", "_ALIKE", -2.0)),
    "levels": lambda: constants(("columns", "_LEVELS", 0)),
    "laplace": lambda: without_kernel("laplacian"),
    "gaussian": lambda: without_kernel("rbf"),
    "ridge": lambda: constants(("estimators.candidates", "_FEW_COLUMNS", 0)),
    "prior": lambda: constants(
        ("learners.kernel.geometry", "_RATES", 1e3), ("learners.kernel.geometry", "_OF_LABELS", 1e3)
    ),
    "additive": additive_off,
    "stack": best_alone,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="../shared/data", help="folder of the data sets")
    names = [name for half in (*HALVES.values(), LARGE) for name in half]
    parser.add_argument("--large", action="store_true", help="whole sets, of up to 50,000 rows")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names)
    parser.add_argument("--peers", nargs="*", metavar="NAME", choices=PEERS, default=list(PEERS))
    parser.add_argument("--without", nargs="+", metavar="STEP", choices=[*STEPS, "all"], default=[])
    parser.add_argument("--cache", metavar="FILE")
    options = parser.parse_args()
    options.without = list(STEPS) if "all" in options.without else options.without
    return options


if __name__ == "__main__":
    main()
