"""Tables, files and figures of the benchmark."""

import csv
import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import tunefree

CV = ("SVC CV", "SGD CV", "logistic CV")
console = Console(width=132, highlight=False)

HOW = """\
CPU seconds of all threads (time.process_time), as many as libraries take by default; short calls
are repeated and the quickest counts. Ours: raw data, defaults, random_state=0, everything it does.
Peers: sparse and [-1, 1] data raw, pixels / 255, other tables standardised ("raw": not); scaling,
cross-validation (5 folds x 5 values, C in 1e-2..1e2 or alpha in 1e-6..1e-2) and refit are timed.
"~": search not run, one default fit x 21 (25 on four fifths of the rows, one on all), its error.
logistic: multinomial, max_iter=1000; SVC, SGD: one against the rest. Regret: our error less that of
the best member making all passes alone. R2 of "ridge clipped": with our clipping of columns.
vw: Python binding, raw data, logistic loss, one against all, no hold-out, learning from a ready
binary cache; predicting is not timed for anyone. Compiling is not timed (warm-up below)."""


def table(title, columns, rows):
    """Print one table; the first column is text, the others are right-aligned."""
    console.print(f"[bold]{title}[/bold]")
    drawn = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for i, column in enumerate(columns):
        drawn.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*map(str, row))
    console.print(drawn)


def standard_error(error, n):
    """Binomial standard error, with a floor for nearly perfect predictors."""
    return float(np.sqrt(max(error * (1 - error), 1e-3) / n))


def verdict(rows, n_test):
    """Ours against the best cross-validated peer: name, z and CPU ratio, or None without both."""
    tuned = [(rows[name]["error"], rows[name]["cpu"], name) for name in CV if name in rows]
    if not tuned or "tunefree" not in rows:
        return None
    error, cpu, name = min(tuned)
    ours = rows["tunefree"]
    z = (ours["error"] - error) / standard_error(error, n_test)
    return {"peer": name, "z": z, "ratio": cpu / ours["cpu"]}


def classification(results):
    """Print the summary, errors and CPU seconds of every method, and the candidates."""
    columns = ["data", "rows x columns", "ours %", "peer %", "best CV peer", "difference / SE"]
    columns += ["ours CPU s", "peer CPU s", "ratio", "regret %"]
    title = "Ours against the best cross-validated peer (regret: ours less the best member)"
    table(title, columns, summary(results))
    rows = {name: found["rows"] for name, found in results.items()}
    grid("Test error, %", rows, lambda row: f"{100 * row['error']:.2f}")
    grid("CPU seconds to train", rows, lambda row: f"{mark(row)}{row['cpu']:.3g}")
    portfolio(results)


def summary(results):
    """Yield the lines of the summary: one for each data set, then median and worst."""
    z, ratio = [], []
    for name, found in results.items():
        rows, won = found["rows"], verdict(found["rows"], found["n_test"])
        if won is None:
            continue
        ours, peer = rows["tunefree"], rows[won["peer"]]
        best = min((test for *_, test in found["members"]), default=np.nan)
        z.append(won["z"])
        ratio.append(won["ratio"])
        yield (
            name,
            found["shape"],
            f"{100 * ours['error']:.2f}",
            f"{100 * peer['error']:.2f}",
            won["peer"],
            f"{won['z']:+.2f}",
            f"{ours['cpu']:.2f}",
            f"{mark(peer)}{peer['cpu']:.2f}",
            f"{mark(peer)}{won['ratio']:.1f}",
            f"{100 * (ours['error'] - best):+.2f}",
        )
    if len(z) > 1:
        blank = [""] * 4
        yield "mean; median", *blank, f"{np.mean(z):+.2f}", "", "", f"{np.median(ratio):.1f}", ""
        yield "worst", *blank, f"{max(z):+.2f}", "", "", f"{min(ratio):.1f}", ""


def portfolio(results):
    """Print the progressive error of every candidate, and its test error."""
    rows = [
        [name, member, f"{100 * progressive:.2f}", f"{100 * test:.2f}"]
        for name, found in results.items()
        for member, progressive, test in found["members"]
    ]
    if rows:
        columns = ["data", "member", "progressive %", "test %"]
        table("The portfolio's members", columns, rows)


def grid(title, results, show):
    """Print methods by data sets."""
    methods = dict.fromkeys(method for rows in results.values() for method in rows)
    body = [
        [method, *(show(rows[method]) if method in rows else "" for rows in results.values())]
        for method in methods
    ]
    table(title, ["method", *results], body)


def regression(results):
    """Print R2, robustness and the effect of a change of units."""

    def part(keep):
        return {
            name: {method: row for method, row in rows.items() if keep(method)}
            for name, rows in results.items()
        }

    def short(value):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:.0e}"

    clean = part(lambda m: "dirty" not in m and "affine" not in m)
    dirty = part(lambda m: "dirty" in m)
    grid("Regression: test R2", clean, lambda row: short(row["r2"]))
    grid("Regression: CPU seconds to train", clean, lambda row: f"{row['cpu']:.3g}")
    title = "1 % of training targets moved by 1e6 SD: test MAE as a multiple of the median's"
    grid(title, dirty, lambda row: short(row["mae"]))
    title = "Other units for y and every column, rows in order: largest change of a prediction, SD"
    grid(title, part(lambda m: "affine" in m), lambda row: f"{row['shift']:.1e}")


def stream(rows):
    """Print the prequential errors of the stream."""
    body = [
        [method, f"{100 * row['error']:.2f}", f"{row['cpu']:.2f}" if "cpu" in row else ""]
        for method, row in rows.items()
    ]
    table("elec2, prequential: predict 100 rows, then learn them", ["method", "%", "CPU s"], body)


def throughput(results):
    """Print million non-zeros a second."""
    body = [
        [name, what, f"{scratch:.1f}", f"{more:.1f}"]
        for name, rows in results.items()
        for what, scratch, more in rows
    ]
    columns = ["data", "what", "first pass with set-up", "one pass more"]
    table("Million non-zeros a second of CPU", columns, body)


def mark(row):
    return "~" if row.get("estimated") else ""


def footer(compiling, kept):
    """Print the method; ``kept`` names the data whose peers were measured earlier."""
    names = ("numpy", "scipy", "scikit-learn", "numba", "vowpalwabbit")
    versions = [f"tunefree {tunefree.__version__}"]
    for name in names:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # an extra
            versions.append(f"{name} (not installed)")
    console.print(HOW)
    if kept:
        console.print(f"Peers measured in an earlier run: {', '.join(kept)}.")
    console.print(f"Warm-up: {compiling:.1f} CPU s. Python {platform.python_version()}.")
    console.print(", ".join(versions))


def write_csv(path, results):
    """Write every number as one line: table, data, method, quantity, value."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "data", "method", "quantity", "value"])
        writer.writerows(long(results))


def long(results):
    """Yield the lines of the csv file."""
    for name, found in results.get("classification", {}).items():
        yield from cells("classification", name, found["rows"])
        for member, progressive, test in found["members"]:
            yield "members", name, member, "progressive_error", progressive
            yield "members", name, member, "error", test
    for name, rows in results.get("regression", {}).items():
        yield from cells("regression", name, rows)
    yield from cells("stream", "elec2", results.get("stream", {}))
    for name, rows in results.get("throughput", {}).items():
        for what, scratch, more in rows:
            yield "throughput", name, what, "first_pass", scratch
            yield "throughput", name, what, "one_pass_more", more


def cells(title, name, rows):
    for method, row in rows.items():
        for quantity, value in row.items():
            yield title, name, method, quantity, value


def figure(path, results):
    """Draw accuracy against cost: each data set's z over its CPU ratio."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(7, 4.2), layout="constrained")
    axes = drawing.subplots()
    won = {name: verdict(found["rows"], found["n_test"]) for name, found in results.items()}
    points = sorted((p["ratio"], p["z"], name) for name, p in won.items() if p is not None)
    above = {"xytext": (0, 5), "va": "bottom"}
    for i, (x, y, name) in enumerate(points):
        axes.plot(x, y, "o", color="C0")
        # Names of neighbours would overlap.
        crowded = any(x < 1.4 * left and abs(y - low) < 0.25 for left, low, _ in points[:i])
        up = (y >= 0) != crowded
        side = above if up else {"xytext": (0, -5), "va": "top"}
        axes.annotate(name, (x, y), textcoords="offset points", ha="center", size=8, **side)
    axes.axhline(0, color="0.6", lw=1)
    axes.axhline(1.5, color="C3", lw=1, ls="--")
    axes.axvline(10, color="C3", lw=1, ls="--")
    axes.set_xscale("log")
    axes.margins(x=0.15, y=0.1)
    axes.set_xlabel("CPU seconds of the best cross-validated peer / ours")
    axes.set_ylabel("test error: ours less the peer's, in SE")
    axes.set_title("Defaults on raw data against cross-validated peers (lower right is better)")
    drawing.savefig(path, dpi=150)
