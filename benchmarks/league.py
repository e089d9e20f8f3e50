"""The league: one call without tuning, against cross-validated linear and kernel machines.

python benchmarks/league.py --data DIR [--only NAME ...] [--peers FILE] [--rows FILE] [--ours]
                            [--csv FILE] [--figure FILE]

Ours: `TuneFreeClassifier` and `TuneFreeRegressor` with defaults and random_state=0, on raw data and
on standardised data. Peers: see `_league_peers.py`. Seconds are CPU seconds of all threads with all
tuning. ``--peers FILE`` keeps the rows of the peers between runs during development, ``--rows
FILE`` all rows, so that a table can be made in parts; a note below the table mentions it.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import _data
import _league_peers
from _peers import timed
from _tables import console, standard_error, table
from linear import Cache

DOCS = Path(__file__).resolve().parents[1] / "docs"
TASKS = ("binary", "multiclass", "regression")


def main():
    options = arguments()
    cache, every, results = Cache(options.peers), Cache(options.rows), {}
    if options.ours:
        return alone(options, every)
    warm_up()
    for name in _data.names(*TASKS):
        if options.only and name not in options.only and name not in every.rows:
            continue
        if options.cached and name not in cache.rows:
            continue
        console.print(f"[dim]{name}[/dim]")
        data = _data.load(name, options.data)
        rows = every(data, lambda data: everyone(data, cache).items())
        results[name] = {"task": data.task, "n_test": len(data.y_test), "rows": rows}
        if options.csv:
            write_csv(options.csv, results)
    show(results)
    for kept, option in ((every.kept, "--rows"), (cache.kept - every.kept, "--peers")):
        named = ", ".join(name for name in results if name in kept)
        if named:
            whose = "Rows" if option == "--rows" else "Peers"
            console.print(f"{whose} measured in an earlier run (from {option} FILE): {named}.")
    if options.figure:
        figure(options.figure, results)


def alone(options, every):
    """Our rows without peers."""
    rows = []
    for name in _data.names(*TASKS):
        if options.only and name not in options.only:
            continue
        if name not in every.rows and not rows:
            warm_up()
        data = _data.load(name, options.data)
        (mine,) = every(data, lambda data: [(None, judged(data))]).values()
        (row, chosen), scale = mine, 1.0 if data.task == "regression" else 100.0
        rows.append([name, chosen, *(f"{scale * row[k]:.4g}" for k in ("loss", "se")),
                     f"{row['cpu']:.2f}"])  # fmt: skip
    title = "Ours alone: test error % or MSE, its standard error, CPU seconds"
    table(title, ["data", "largest share", "loss", "SE", "CPU s"], rows)


def everyone(data, cache):
    """Our row and those of the peers."""
    peers = _league_peers.regression if data.task == "regression" else _league_peers.classification
    return {**dict(ours(data)), **cache(data, peers)}


def model(data):
    from tunefree import TuneFreeClassifier, TuneFreeRegressor

    return (TuneFreeRegressor if data.task == "regression" else TuneFreeClassifier)(random_state=0)


def warm_up():
    """Compile the kernels of the table, or load them from the cache."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    for y, task in ((X[:, 0] * X[:, 1] > 0, "binary"), (np.digitize(X[:, 0] * X[:, 1], [-1, 1]),
                    "multiclass"), (X[:, 0] * X[:, 1], "regression")):  # fmt: skip
        for form in (X, sp.csr_matrix(X * (X > 1))):
            model(_data.Data("", task, form, y, form, y)).fit(form, y)


def ours(data):
    """Yield our row on raw data, and the test loss on standardised data."""
    row, chosen = judged(data)
    if not sp.issparse(data.X_train):
        centre, spread = data.X_train.mean(axis=0), data.X_train.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        shown = [(X - centre) / spread for X in (data.X_train, data.X_test)]
        other, _ = judged(data._replace(X_train=shown[0], X_test=shown[1]))
        row["standardised"] = other["loss"]
    yield "tunefree", {**row, "chosen": chosen}


def judged(data):
    """Test loss, its standard error, CPU seconds of a fit, and the largest share of the stack."""
    fitted, cpu = timed(lambda: model(data).fit(data.X_train, data.y_train), repeats=1)
    chosen = "{} {:.0%}".format(*max(fitted.chosen_.items(), key=lambda item: item[1]))
    predicted = fitted.predict(data.X_test)
    if data.task == "regression":
        square = (predicted - data.y_test) ** 2
        se = float(square.std() / np.sqrt(len(square)))
        return {"loss": float(square.mean()), "se": se, "cpu": cpu}, chosen
    error = float(np.mean(predicted != data.y_test))
    se = standard_error(error, len(data.y_test))
    return {"loss": error, "se": se, "cpu": cpu}, chosen


def loss(row):
    return row.get("loss", row.get("error", row.get("mse")))


def verdict(found):
    """Ours against every peer of one data set."""
    rows = found["rows"]
    mine, peers = rows["tunefree"], {k: r for k, r in rows.items() if k != "tunefree"}
    best = min(peers, key=lambda name: loss(peers[name]))
    # The seconds of the refit on all rows include the search: only one of the two counts.
    searches = [r["cpu"] for name, r in peers.items() if f"{name}, all" not in peers]
    out = {
        "best": best,
        "total_ratio": sum(searches) / mine["cpu"],
        "best_ratio": peers[best]["cpu"] / mine["cpu"],
        "relative": loss(mine) / max(loss(peers[best]), 1e-300),
    }
    if found["task"] != "regression":
        se = standard_error(loss(peers[best]), found["n_test"])
        out["z"] = (loss(mine) - loss(peers[best])) / se
        shift = mine.get("standardised", loss(mine)) - loss(mine)
        out["shift"] = shift / standard_error(loss(mine), found["n_test"])
    else:
        out["shift"] = (mine.get("standardised", loss(mine)) - loss(mine)) / mine["se"]
    return out


def families(rows):
    """Our loss, and that of the better variant of each peer."""
    out = {}
    for name, row in rows.items():
        short = name.removesuffix(", all")
        out[short] = min(out.get(short, np.inf), loss(row))
    return out


def ranks(results):
    """Mean rank of every method over the data sets of a task; equal losses share ranks."""
    table = {}
    for found in results:
        losses = families(found["rows"])
        for name, value in losses.items():
            below = sum(other < value for other in losses.values())
            equal = sum(other == value for other in losses.values())
            table.setdefault(name, []).append(1 + below + (equal - 1) / 2)
    return {name: float(np.mean(values)) for name, values in table.items()}


def show(results):
    for task in ("classification", "regression"):
        regression = task == "regression"
        part = {n: f for n, f in results.items() if (f["task"] == "regression") == regression}
        if part:
            league(task, part)
    console.print(__doc__.split("\n\n")[2].replace("\n", " "))
    guessed = [
        f"{peer} on {name}"
        for name, found in results.items()
        for peer, row in found["rows"].items()
        if row.get("estimated")
    ]
    if guessed:
        console.print(
            f"Seconds of a search are those of one fit, multiplied: {', '.join(guessed)}."
        )


def league(task, part):
    classify = task == "classification"
    unit, scale = ("error %", 100.0) if classify else ("MSE", 1.0)
    verdicts = {name: verdict(found) for name, found in part.items()}
    against = "difference / SE" if classify else "ours / peer"
    table(
        f"The league: {task}, test {unit}; shift: standardised less raw, in SE",
        ["data", "chosen", "ours", "SE", "best peer's", "best peer", against, "shift"],
        [losses_of(name, found, verdicts[name], scale) for name, found in part.items()],
    )
    table(
        f"CPU seconds: {task}",
        ["data", "ours", "best peer's", "all peers'", "best / ours", "all / ours"],
        [seconds_of(name, found, verdicts[name]) for name, found in part.items()],
    )
    names = list(dict.fromkeys(k for f in part.values() for k in families(f["rows"])))
    losses = {name: families(found["rows"]) for name, found in part.items()}
    grid = [[n, *(f"{scale * column[n]:.4g}" for column in losses.values())] for n in names]
    title = f"Every method's test {unit} (kernel peers: the better of both refits)"
    table(title, ["method", *part], grid)
    for name, rank in sorted(ranks(part.values()).items(), key=lambda item: item[1]):
        console.print(f"mean rank {rank:.2f}  {name}")
    console.print(record(verdicts.values(), classify))
    for what, peer in (("best", "the best peer's"), ("total", "all three peers'")):
        ratio = np.median([v[f"{what}_ratio"] for v in verdicts.values()])
        console.print(f"median of {peer} seconds / ours: {ratio:.1f}")
    shift = max(abs(v["shift"]) for v in verdicts.values())
    console.print(f"largest |raw - standardised|: {shift:.2f} SE\n")


def losses_of(name, found, v, scale):
    """One line of the league."""
    mine, peer = found["rows"]["tunefree"], found["rows"][v["best"]]
    return [
        name,
        mine["chosen"],
        f"{scale * loss(mine):.4g}",
        f"{scale * mine['se']:.2g}",
        f"{scale * loss(peer):.4g}",
        v["best"],
        f"{v['z']:+.2f}" if "z" in v else f"{v['relative']:.3f}",
        f"{v['shift']:+.2f}",
    ]


def seconds_of(name, found, v):
    """Seconds of ours, of the best peer and of all."""
    cpu = found["rows"]["tunefree"]["cpu"]
    best, every = v["best_ratio"], v["total_ratio"]
    seconds = (cpu, best * cpu, every * cpu)
    return [name, *(f"{s:.2f}" for s in seconds), f"{best:.1f}", f"{every:.1f}"]


def record(verdicts, classify):
    """Wins, ties and losses against the best peer of each set."""
    key, low, high = ("z", -1.0, 1.0) if classify else ("relative", 0.98, 1.02)
    values = [v[key] for v in verdicts]
    wins, lost = sum(x < low for x in values), sum(x > high for x in values)
    within, unit = ("1 SE", "SE") if classify else ("2 %", "times")
    return (
        f"against the best peer: {wins} wins, {len(values) - wins - lost} ties (within {within}), "
        f"{lost} losses; worst {max(values):+.3g} {unit}"
    )


def write_csv(path, results):
    """Write every number as one line: data, task, method, quantity, value."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "task", "method", "quantity", "value"])
        for name, found in results.items():
            for method, row in found["rows"].items():
                for quantity, value in row.items():
                    writer.writerow([name, found["task"], method, quantity, value])


def figure(path, results):
    """Draw each data set's loss relative to the best peer's over the ratio of seconds."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes, names = drawing.subplots(), []
    for kind, marker, colour in (("regression", "s", "#0072B2"), ("", "o", "#D55E00")):
        label = "regression (MSE)" if kind else "classification (error)"
        for name, found in results.items():
            if (found["task"] == "regression") != bool(kind):
                continue
            v = verdict(found)
            height = max(v["relative"], 2.0**-4) if np.isfinite(v["relative"]) else 1.0
            if loss(found["rows"][v["best"]]) == 0 and loss(found["rows"]["tunefree"]) == 0:
                height = 1.0
            axes.plot(v["total_ratio"], height, marker, color=colour, label=label)
            label = None
            names.append((name, (v["total_ratio"], height)))
    axes.axhline(1.0, color="0.6", lw=1)
    axes.axvline(10, color="0.6", lw=1, ls="--")
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.margins(x=0.15, y=0.1)
    axes.set_xlabel("CPU seconds of all three peers / ours (all tuning inside)")
    axes.set_ylabel("test loss: ours / best peer's (cut at 1/16)")
    axes.legend()
    axes.set_title("One call without tuning against cross-validated peers (lower right is better)")
    drawing.draw_without_rendering()
    taken = []
    for name, point in sorted(names, key=lambda item: item[1]):
        taken.append(labelled(axes, name, point, taken))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=150)


def labelled(axes, name, point, taken):
    """Write a name at its point, on the first side that is free of earlier names."""
    text = axes.annotate(name, point, xytext=(6, 3), textcoords="offset points", size=8)
    for across, up in ((6, 3), (-6, 3), (6, -9), (-6, -9), (6, 12), (-6, 12), (6, -19), (-6, -19)):
        text.set(position=(across, up), ha="left" if across > 0 else "right")
        place = text.get_window_extent()
        if not any(place.overlaps(other) for other in taken):
            break
    return place


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="../shared/data", help="folder of the data sets")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=_data.names(*TASKS))
    parser.add_argument("--peers", metavar="FILE", help="keep the peers' rows there (JSON)")
    parser.add_argument("--rows", metavar="FILE", help="keep all rows there (JSON)")
    parser.add_argument("--ours", action="store_true", help="ours alone, without peers")
    parser.add_argument("--cached", action="store_true", help="only sets whose peers are in FILE")
    parser.add_argument("--csv", metavar="FILE", default=DOCS / "results/league.csv")
    parser.add_argument("--figure", metavar="FILE", help="draw the losses and times there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
