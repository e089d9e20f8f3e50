"""Ranks, Elo, ratios and figures of the open benchmark (`open.py`)."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from _open_methods import METHODS
from _tables import console, table
from tables import geometric

REFERENCE, ANCHOR, BASELINE = "CatBoost", "Random forest", "Constant"
OURS = "TuneFree"
EQUAL = 1e-3  # losses this close, relatively, are equal
KINDS = ("classes", "numbers", "counts")
SIZES = {
    "300 to 999 rows": (0, 999),
    "1,000 to 4,999 rows": (1_000, 4_999),
    "5,000 rows and more": (5_000, np.inf),
}
SHORT = {
    "HistGradientBoosting": "HistGB", "Random forest": "Forest", "Logistic / ridge CV": "Linear CV",
    "SVC / kernel ridge CV": "Kernel CV",
}  # fmt: skip
# Added to 1 - R2; to errors and log-losses half a mistake is added.
FLOOR = 1e-6
LEVEL = 0.05
DRAWS = 1_000

HOW = """\
Loss: the error, or 1 - R2; the mean of three splits. A failed fit has the loss of the constant
predictor. Ratios: geometric means over tables of loss / loss of CatBoost, with half a mistake (1e-6
for 1 - R2) added to both, and the standard error. Mean rank: equal losses share ranks. Elo:
Bradley-Terry over all pairs and tables, a random forest at 1,000, 400 points for odds of ten; the
95 % interval is of 1,000 bootstrap samples of the tables. The bars of the figure join methods of
which no two differ: Wilcoxon's signed-rank test of the log ratios of losses at 5 %, with Holm's
correction over all pairs. CPU s, us a row (microseconds to predict): medians over tables. CPU
ratio: the geometric mean of CPU s / CPU s of CatBoost."""


def show(path, figures):
    """Print the tables and draw the figures, of the tables that every method has finished."""
    read = pd.read_csv(path)
    searched = read["method"].isin([name for name, m in METHODS.items() if m.searches])
    rows = completed(read[~searched])
    if rows.empty:
        console.print("No table is finished yet.")
        return
    everywhere = rows.groupby("method")["table"].nunique() == rows["table"].nunique()
    general = rows[rows["method"].isin(everywhere.index[everywhere])]
    overview("All tables", general)
    against_ours(f"Beside {OURS}", general)
    for method in sorted(set(read.loc[searched, "method"])):
        beside_search(method, read)
    for kind in KINDS:
        overview(f"Kind: {kind}", rows[rows["kind"] == kind])
    for size, bounds in SIZES.items():
        overview(f"Size: {size}", general[general["rows"].between(*bounds)])
    by_table(rows)
    failures(rows)
    console.print(HOW)
    draw_ranks(losses(general), Path(figures) / "open_ranks.png")
    draw_cost(general, Path(figures) / "open.png")


def completed(rows):
    """The rows of tables that all methods of their task have, failed fits as the constant."""
    methods = rows.groupby(rows["kind"] == "classes")["method"].transform("nunique")
    there = rows.groupby("table")["method"].transform("nunique")
    rows = rows[there == methods]
    keys = ["table", "split"]
    constant = rows[rows["method"] == BASELINE].set_index(keys)
    constant = constant.loc[pd.MultiIndex.from_frame(rows[keys])].set_index(rows.index)
    failed = rows["failure"].notna()
    filled = rows.copy()
    for column in ("loss", "log_loss", "tested"):
        filled.loc[failed, column] = constant.loc[failed, column]
    half = np.where(filled["kind"] == "classes", 0.5 / filled["tested"], FLOOR)
    return filled.assign(floor=half)


def losses(rows, column="loss"):
    """A frame of tables by methods: means over splits with the floor, without the constant."""
    values = rows.assign(value=rows[column] + rows["floor"])
    found = values.pivot_table(index="table", columns="method", values="value", dropna=False)
    return found.drop(columns=BASELINE, errors="ignore").dropna(axis=1, how="all")


def mean_ranks(found):
    """The mean rank of every method; the least loss has rank 1, equal losses share ranks."""
    return found.round(12).rank(axis=1).mean().sort_values()


def elo(found, draws=DRAWS):
    """The Elo of every method, and the ends of its 95 % interval over samples of the tables."""
    values = found.to_numpy()[:, :, None]
    wins = (values < values.swapaxes(1, 2)) + 0.5 * (values == values.swapaxes(1, 2))
    random, n = np.random.default_rng(0), len(wins)
    counts = np.vstack([np.ones(n), random.multinomial(n, np.full(n, 1 / n), size=draws)])
    scores = np.array([ratings(np.tensordot(c, wins, 1)) for c in counts])
    scores += 1000.0 - scores[:, [list(found).index(ANCHOR)]] if ANCHOR in found else 1000.0
    low, high = np.quantile(scores[1:], [0.025, 0.975], axis=0)
    columns = {"elo": scores[0], "low": low, "high": high}
    return pd.DataFrame(columns, index=found.columns)


def ratings(wins, passes=300):
    """Bradley-Terry by Hunter's (2004) minorization; each pair has one more game, a draw."""
    wins = wins + 0.5
    np.fill_diagonal(wins, 0.0)
    games, strength = wins + wins.T, np.ones(len(wins))
    for _ in range(passes):
        strength = wins.sum(axis=1) / (games / np.add.outer(strength, strength)).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
    return 400.0 * np.log10(strength)


def different(found):
    """Pairs that differ: Wilcoxon's test of log ratios, with Holm's correction."""
    logs, p = np.log(found), {}
    for one, other in combinations(found.columns, 2):
        gaps = logs[one] - logs[other]
        p[one, other] = wilcoxon(gaps).pvalue if (gaps != 0).any() else 1.0
    pairs = sorted(p, key=lambda pair: p[pair])
    for k, pair in enumerate(pairs):
        if p[pair] > LEVEL / (len(pairs) - k):
            return {frozenset(pair) for pair in pairs[:k]}
    return {frozenset(pair) for pair in pairs}


def cliques(found):
    """Largest groups of neighbours by mean rank without a pair that differs."""
    names, apart = list(mean_ranks(found).index), different(found)
    groups = []
    for i in range(len(names)):
        end = i + 1
        while end < len(names) and not any({a, names[end]} in apart for a in names[i:end]):
            end += 1
        if end - i > 1 and (not groups or end > groups[-1][1]):
            groups.append((i, end))
    return [names[i:end] for i, end in groups]


def ratios(found):
    """Log ratios to the reference."""
    return np.log(found.div(found[REFERENCE], axis=0))


def mean_and_error(logs):
    return geometric(np.exp(logs.dropna().to_numpy()), len(logs.dropna()) > 1)


def overview(title, rows):
    """One line for every method, in the order of the mean ranks."""
    if rows.empty:
        return
    found = losses(rows)
    ranks, points, relative = mean_ranks(found), elo(found), ratios(found)
    has_logs = rows["log_loss"].notna().any()
    logs = ratios(losses(rows[rows["kind"] == "classes"], "log_loss")) if has_logs else None
    costs = rows.pivot_table(index="table", columns="method", values=["cpu", "predict"])
    lines = []
    for name in ranks.index:
        cpu, rest = costs["cpu"][name], points.loc[name]
        log_loss = mean_and_error(logs[name]) if has_logs and name in logs else "-"
        failed = rows.loc[rows["method"] == name, "failure"].notna().sum()
        lines.append([
            name, f"{ranks[name]:.2f}", f"{rest.elo:.0f} ({rest.low:.0f} to {rest.high:.0f})",
            mean_and_error(relative[name]), log_loss, f"{cpu.median():.2f}",
            f"{np.exp(np.log(cpu / costs['cpu'][REFERENCE]).mean()):.3f}",
            f"{costs['predict'][name].median():.1f}", failed,
        ])  # fmt: skip
    columns = ["method", "mean rank", "Elo (95 %)", "loss ratio", "log-loss ratio", "CPU s",
               "CPU ratio", "us a row", "failed"]  # fmt: skip
    table(f"{title}: {len(found)} tables", columns, lines)


def beside_search(method, read):
    """One that searches, on the tables that it has finished, with the constant for failed fits."""
    pair = completed(read[read["method"].isin([OURS, REFERENCE, method, BASELINE])])
    if not pair.empty:
        against_ours(f"Beside {method}, {pair['table'].nunique()} tables", pair)


def against_ours(title, rows):
    """Every method beside ours: ratios, and the number of tables on which ours is better."""
    found, cpu = losses(rows), rows.pivot_table(index="table", columns="method", values="cpu")
    lines = []
    for name in mean_ranks(found).index.drop(OURS):
        relative = found[name] / found[OURS]
        better, worse = (relative > 1 + EQUAL).sum(), (relative < 1 - EQUAL).sum()
        lines.append([
            name, f"{np.exp(np.log(relative).mean()):.2f}", f"{relative.median():.2f}",
            f"{np.exp(np.log(cpu[name] / cpu[OURS]).mean()):.2f}",
            better, len(found) - better - worse, worse,
        ])  # fmt: skip
    columns = ["method", "loss / ours", "median", "CPU / ours", "ours better", "equal", "worse"]
    table(title, columns, lines)


def by_table(rows):
    """Losses of every table."""
    found = rows.pivot_table(index="table", columns="method", values="loss", dropna=False)
    about = rows.groupby("table")[["kind", "rows", "columns"]].first()
    for methods in np.array_split(list(found), 2):
        lines = []
        for name, line in found[methods].iterrows():
            kind, n, d = about.loc[name]
            lines.append(
                [
                    name[:30],
                    kind,
                    f"{n} x {d}",
                    *("-" if v != v else f"{100 * v:.1f}" for v in line),
                ]
            )
        short = [SHORT.get(name, name) for name in methods]
        table("Error, or 1 - R2, in per cent", ["table", "target", "shape", *short], lines)


def failures(rows):
    """Every failed fit, with its reason."""
    failed = rows[rows["failure"].notna()].groupby(["table", "method", "failure"]).size()
    lines = [
        [f"{name}, {method}", count, reason] for (name, method, reason), count in failed.items()
    ]
    if lines:
        table("Failures", ["table, method", "splits", "reason"], lines)


# Okabe and Ito's colours, which the colour-blind can distinguish.
GROUPS = {
    "#D55E00": ("TuneFree", "BoostedTrees"),
    "#0072B2": ("CatBoost", "LightGBM", "XGBoost", "HistGradientBoosting", "Random forest"),
    "#CC79A7": ("RealMLP",),
}
OTHER = "#009E73"
LABELS = {
    "#D55E00": "tunefree", "#0072B2": "trees", "#CC79A7": "network", OTHER: "linear, kernel"
}  # fmt: skip
MARKERS = dict(zip(LABELS, "ospD", strict=True))


def colour(name):
    return next((c for c, names in GROUPS.items() if name in names), OTHER)


def draw_ranks(found, path):
    """Mean ranks on an axis; a bar joins methods that do not differ."""
    from matplotlib.figure import Figure

    ranks, groups = mean_ranks(found), cliques(found)
    n, half = len(ranks), (len(ranks) + 1) // 2
    height = 0.9 + 0.22 * len(groups) + 0.28 * half
    drawing = Figure(figsize=(8, height), layout="constrained")
    axes = drawing.subplots()
    low, high = np.floor(ranks.min()), np.ceil(ranks.max())
    axes.set(xlim=(low, high), ylim=(-(1.2 + len(groups) * 0.5 + half * 0.6), 0))
    for k, group in enumerate(groups):
        ends = ranks[group[0]] - 0.03, ranks[group[-1]] + 0.03
        axes.plot(ends, [-0.4 - 0.5 * k] * 2, color="black", lw=4, solid_capstyle="butt")
    for i, (name, rank) in enumerate(ranks.items()):
        left = i < half
        y = -(0.8 + len(groups) * 0.5 + (i if left else n - 1 - i) * 0.6)
        side = low if left else high
        axes.plot([rank, rank, side], [0, y, y], color=colour(name), lw=1, clip_on=False)
        text = f"{name}  {rank:.2f} " if left else f" {rank:.2f}  {name}"
        axes.text(side, y, text, ha="right" if left else "left", va="center", color=colour(name))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(f"mean rank over {len(found)} tables (1 is best)")
    axes.set_yticks([])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    save(drawing, path)


def draw_cost(rows, path):
    """The loss beside the reference's against the CPU seconds of a fit."""
    from matplotlib.figure import Figure

    from league import labelled

    found = losses(rows)
    relative = ratios(found)
    cpu = rows.pivot_table(index="table", columns="method", values="cpu")
    drawing = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes, taken, points = drawing.subplots(), [], {}
    for name in found:
        points[name] = cpu[name].median(), np.exp(relative[name].mean())
        error = relative[name].std() / np.sqrt(len(found))
        ends = np.exp(relative[name].mean() + np.array([-error, error]))
        axes.plot([points[name][0]] * 2, ends, color=colour(name), lw=1)
        axes.plot(*points[name], MARKERS[colour(name)], color=colour(name), ms=7)
    for shade, label in LABELS.items():
        axes.plot([], [], MARKERS[shade], color=shade, label=label)
    axes.axhline(1.0, color="0.7", lw=1, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="CPU seconds of a fit (median over tables)")
    axes.set_ylabel(f"loss / loss of {REFERENCE} (± standard error)")
    axes.set_title(f"{len(found)} real tables, everything at its defaults (lower left is better)")
    axes.margins(x=0.2, y=0.15)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:.2g}")
    axes.yaxis.set_minor_formatter("{x:.2g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best")
    drawing.draw_without_rendering()
    for name in sorted(points, key=points.get):
        taken.append(labelled(axes, name, points[name], taken))
    save(drawing, path)


def save(drawing, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=150)
