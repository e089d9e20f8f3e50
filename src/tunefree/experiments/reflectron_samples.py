"""Test error of three geometries against the number of rows."""

from tunefree.experiments.sparse_glm import compute, error_cells, medians  # noqa: F401
from tunefree.experiments.style import COLOURS, MARKERS, finish, logarithmic

PAPER = "Boffi, Tu and Slotine 2021, Figure 1b"
TITLE = "Test error against rows, d = 10,000 columns of which 100 matter"
NOTES = """
Five draws, median with lowest and highest. The paper tunes the step and p or beta on a grid over
5,000 iterations; here the automatic step is used, which tunes nothing, with three p and two betas
chosen on the same 500 held-out rows (quick: d = 1000, two draws). The paper prints no numbers; its
ordering is that p-norm and hypentropy are below the GLM-tron everywhere.
"""


def cells(quick):
    """Rows by algorithm by draw."""
    if quick:
        return error_cells(True, [(1000, n) for n in (100, 300)])
    return error_cells(False, [(10_000, n) for n in (250, 500, 1000, 2000)])


def table(results):
    """Medians, and whether the order is the paper's."""
    return ordering(results, "n")


def draw(figure, results):
    """Medians with their range."""
    errors(figure.subplots(), medians(results, "n"), "rows n", TITLE)


def ordering(results, name):
    """Rows of a table: each geometry's median, and the paper's order."""
    rows, curves = [], medians(results, name)
    x = curves["GLM-tron"][0]
    for i, value in enumerate(x):
        here = {a: c[1][i] for a, c in curves.items()}
        ours = ", ".join(f"{a} {e:.4f}" for a, e in here.items())
        below = max(here["p-norm"], here["hypentropy"]) < here["GLM-tron"]
        order = "as in the paper" if below else "GLM-tron is not the worst"
        draws = len({cell["seed"] for cell, _ in results if cell[name] == value})
        setting = f"{name} = {value}, draws: {draws}; {order}"
        rows.append(("median test error", "p-norm, hypentropy < GLM-tron", ours, setting))
    return rows


def errors(ax, curves, xlabel, title):
    """Draw medians with lowest and highest."""
    for i, (algorithm, (x, middle, low, high)) in enumerate(curves.items()):
        ax.errorbar(
            x, middle, [middle - low, high - middle], color=COLOURS[i], marker=MARKERS[i],
            markersize=4, capsize=3, label=algorithm,
        )  # fmt: skip
    logarithmic(ax)
    finish(ax, xlabel, "test mean squared error", title)
