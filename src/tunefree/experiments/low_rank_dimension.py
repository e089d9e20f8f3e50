"""Risk of three geometries on low-rank systems that grow, with as many trajectories as states."""

from tunefree.experiments import low_rank

PAPER = "Boffi, Tu and Slotine 2021, Figure 1f"
TITLE = "Low-rank systems: test risk against d, with n = d and r = d / 50"
NOTES = """
The paper goes to d = 1,200; here d = 50, 100, 200 (quick: 50 and 100), with the automatic step in
place of its grid, p = 1.1 and beta = 1e-3, and rho known. Theta = A B' / sqrt(d): the paper does
not state its scale, so orders compare and risks do not. The paper prints no numbers.
"""


def cells(quick):
    """Sizes by algorithm by draw."""
    sizes = (50, 100) if quick else (50, 100, 200)
    return low_rank.cells(quick, [(d, d // 50, d) for d in sizes])


def compute(cell, data):
    """One fit."""
    return low_rank.compute(cell)


def table(results):
    """Medians and their order."""
    return low_rank.table(results, "d")


def draw(figure, results):
    """Medians with their range."""
    low_rank.draw(figure, results, "d", "d = n", TITLE)
