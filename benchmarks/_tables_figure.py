"""Draws losses against CPU time from the printed output of `tables.py`.

python benchmarks/_tables_figure.py [FILE]
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
PARTS = (
    ("tables.txt", "validate", "17 tables of 200 to 3,000 rows"),
    ("tables_large.txt", "large", "12 sets of 3,200 to 41,000 rows"),
)
LOSSES = (("log-loss", "classes: log-loss", "o"), ("MSE", "numbers: squared error", "s"))
NAMES = {"HistGB": "HistGradientBoosting"}
COLORS = {"tunefree": "#0072B2", "CatBoost": "#000000", "LightGBM": "#D55E00", "HistGB": "#009E73"}


def summary(name, part):
    """The summary of one part of an output: for every method its numbers by the column's name."""
    lines = (DOCS / "results" / name).read_text().splitlines()
    start = lines.index(f"{part}: ratios to CatBoost, CPU seconds and microseconds (medians)")
    heads = [head.strip() for head in lines[start + 2].strip().split("   ") if head.strip()]
    rows = {}
    for line in lines[start + 4 :]:
        if not line.strip():
            return rows
        method, *numbers = line.split()
        rows[method] = dict(zip(heads[1:], numbers, strict=True))
    return rows


def draw(path):
    """Write the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for panel, (name, part, title) in zip(panels, PARTS, strict=True):
        for method, row in summary(name, part).items():
            seconds = float(row["CPU s"])
            values = [float(row[column]) for column, _, _ in LOSSES]
            panel.plot([seconds] * 2, values, color=COLORS[method], lw=1, alpha=0.5)
            for value, (_, _, marker) in zip(values, LOSSES, strict=True):
                panel.plot(seconds, value, marker, color=COLORS[method], ms=8)
            below = method in ("LightGBM", "tunefree")
            panel.annotate(
                NAMES.get(method, method), (seconds, min(values) if below else max(values)),
                (0, -18 if below else 8), textcoords="offset points", ha="center",
                color=COLORS[method],
            )  # fmt: skip
        panel.axhline(1.0, color="0.7", lw=1, zorder=0)
        panel.set(xscale="log", yscale="log", title=title, xlabel="CPU seconds of a fit (median)")
        panel.set_xlim(0.02, 40)
        panel.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        panel.set_ylim(0.22, 2.2)
        panel.set_yticks([0.3, 0.5, 0.7, 1, 1.5, 2], ["0.3", "0.5", "0.7", "1", "1.5", "2"])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test loss / CatBoost's (geometric mean)")
    for _, label, marker in LOSSES:
        panels[1].plot([], [], marker, color="0.4", label=label)
    panels[1].legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else DOCS / "figures/tables.png")
