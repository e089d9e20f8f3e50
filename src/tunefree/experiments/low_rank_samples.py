"""Risk of three geometries on a low-rank system against the number of trajectories."""

from tunefree.experiments import low_rank
from tunefree.experiments.low_rank import compute  # noqa: F401

PAPER = "Boffi, Tu and Slotine 2021, Figure 1e"
TITLE = "Low-rank system: test risk against trajectories, d = 1000, r = 20"
NOTES = """
The paper's size (quick: d = 60, r = 1), with the automatic step in place of its seven, 500 passes
in place of 5,000 iterations, and one draw in place of five. p (1.2, 1.5; small d: 1.1, 1.3, 1.5) or
beta (0.1, 0.01; small d: 0.001, too) is the one of the lowest risk on 100 held-out trajectories
after a fifth of the passes; the rest goes to it. Theta = A B' / sqrt(d): the paper does not state
its scale, so orders compare and risks do not. The paper prints no numbers. `low-rank-grid` runs the
paper's grid where that is affordable.
"""


def cells(quick):
    """Trajectories by algorithm by draw."""
    if quick:
        return low_rank.cells([(60, 1, n, 2, 400) for n in (20, 60)])
    return low_rank.cells([(1000, 20, n, 1, 500) for n in (200, 500, 1000)])


def table(results):
    """Medians and their order."""
    return low_rank.table(results, "n")


def draw(figure, results):
    """Medians with their range."""
    low_rank.draw(figure, results, "n", "trajectories n", TITLE)
