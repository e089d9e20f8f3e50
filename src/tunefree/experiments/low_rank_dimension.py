"""Risk of three geometries on low-rank systems that grow, with as many trajectories as states."""

from tunefree.experiments import low_rank
from tunefree.experiments.low_rank import compute  # noqa: F401

PAPER = "Boffi, Tu and Slotine 2021, Figure 1f"
TITLE = "Low-rank systems: test risk against d, with n = d and r = d / 50"
NOTES = """
d = 50, 100 and 200 with five draws and 1,000 passes, 400 and 1000 with one draw and 500 passes
(quick: 50 and 100, two draws, 400 passes); the last point is that of Figure 1e and is computed
once. The paper's largest is 1,200. Otherwise as for Figure 1e: the automatic step, p or beta chosen
on held-out trajectories, Theta = A B' / sqrt(d). The paper prints no numbers.
"""


def cells(quick):
    """Sizes by algorithm by draw."""
    if quick:
        return low_rank.cells([(d, d // 50, d, 2, 400) for d in (50, 100)])
    small = [(d, d // 50, d, 5, 1000) for d in (50, 100, 200)]
    return low_rank.cells([*small, *((d, d // 50, d, 1, 500) for d in (400, 1000))])


def table(results):
    """Medians and their order."""
    return low_rank.table(results, "d")


def draw(figure, results):
    """Medians with their range."""
    low_rank.draw(figure, results, "d", "d = n", TITLE)
