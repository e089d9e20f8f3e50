"""Risk of three geometries on a low-rank system against the number of trajectories."""

from tunefree.experiments import low_rank

PAPER = "Boffi, Tu and Slotine 2021, Figure 1e"
TITLE = "Low-rank system: test risk against trajectories"
NOTES = """
The paper has d = 1000, r = 20; here d = 200, r = 4 (quick: d = 40, r = 1), with the automatic step
in place of its grid, p = 1.1 and beta = 1e-3, and rho known. Theta = A B' / sqrt(d): the paper does
not state its scale, so orders compare and risks do not. The paper prints no numbers.
"""


def cells(quick):
    """Trajectories by algorithm by draw."""
    if quick:
        return low_rank.cells(True, [(40, 1, n) for n in (20, 60)])
    return low_rank.cells(False, [(200, 4, n) for n in (50, 100, 200, 400)])


def compute(cell, data):
    """One fit."""
    return low_rank.compute(cell)


def table(results):
    """Medians and their order."""
    return low_rank.table(results, "n")


def draw(figure, results):
    """Medians with their range."""
    low_rank.draw(figure, results, "n", "trajectories n", TITLE)
