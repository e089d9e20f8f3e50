"""Risk of three geometries on low-rank systems that grow, with as many trajectories as states."""

from tunefree.experiments import low_rank
from tunefree.experiments.low_rank import compute  # noqa: F401

PAPER = "Boffi, Tu and Slotine 2021, Figure 1f"
TITLE = "Low-rank systems: test risk against d, with n = d and r = d / 50"
NOTES = """
d = 50, 100 and 200 with five draws and 400 with one, at most 5,000 passes as in the paper; 1000
with one draw and 500 passes, the point of Figure 1e (quick: 50 and 100, two draws, 400 passes).
The paper's largest is 1,200. Otherwise as for Figure 1e: the automatic step, p or beta chosen on
held-out trajectories, Theta = A B' / sqrt(d). The paper prints no numbers.
"""


def cells(quick):
    """Sizes by algorithm by draw."""
    if quick:
        return low_rank.cells([(d, d // 50, d, 2, 400) for d in (50, 100)])
    sizes = ((50, 5, 5000), (100, 5, 5000), (200, 5, 5000), (400, 1, 5000), (1000, 1, 500))
    return low_rank.cells([(d, d // 50, d, draws, most) for d, draws, most in sizes])


def table(results):
    """Medians and their order."""
    return low_rank.table(results, "d")


def draw(figure, results):
    """Medians with their range."""
    low_rank.draw(figure, results, "d", "d = n", TITLE)
